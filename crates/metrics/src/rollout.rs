//! Every metric of roll-outs: of the controller, and of the hosts that follow it. The page
//! docs/rollout.md has them.

use crate::definition::{Base, Definition, PLAIN};

const OF_STEP: &str = "`transom-fleet policy step`";
const OF_FOLLOW: &str = "`transom-fleet follow`";

pub const GENERATION: Definition = Definition {
    name: "transom_policy_generation",
    help: "Generation that is rolled out",
    source: OF_STEP,
    ..PLAIN
};

pub const WAVE: Definition = Definition {
    name: "transom_policy_wave",
    help: "Its wave, from 1; one more than there are: all hosts have it and nothing is judged",
    source: OF_STEP,
    ..PLAIN
};

pub const HOSTS: Definition = Definition {
    name: "transom_policy_hosts_ratio",
    help: "Share of the hosts that its wave is of, half of which have it at a time below 1; 0: one host",
    source: OF_STEP,
    ..PLAIN
};

pub const LEASE_END: Definition = Definition {
    name: "transom_policy_lease_end_timestamp",
    base: Base::Seconds,
    help: "When its lease ends, since 1970",
    source: OF_STEP,
    ..PLAIN
};

pub const CHANGE: Definition = Definition {
    name: "transom_policy_gate_change_ratio",
    labels: &["gate", "of"],
    help: "Change that a gate found last, as a share: the mean, and the ends low and high of its interval of 95 %",
    source: OF_STEP,
    ..PLAIN
};

pub const CHANCE: Definition = Definition {
    name: "transom_policy_gate_chance_ratio",
    labels: &["gate", "of"],
    help: "How likely what it found is without harm, to the mean and to single hosts",
    source: OF_STEP,
    ..PLAIN
};

pub const TAKEN_BACK: Definition = Definition {
    name: "transom_policy_taken_back_generation",
    help: "Generation that a gate took back last, and no other is rolled out since; 0: none",
    source: OF_STEP,
    ..PLAIN
};

pub const LAST_STEP: Definition = Definition {
    name: "transom_policy_last_step_timestamp",
    base: Base::Seconds,
    help: "When a step was taken last without an error, since 1970",
    source: OF_STEP,
    ..PLAIN
};

pub const COPIED: Definition = Definition {
    name: "transom_follow_generation",
    help: "Generation that was copied last; whether the host believes it, it says itself",
    source: OF_FOLLOW,
    ..PLAIN
};

pub const COPIED_WAVE: Definition = Definition {
    name: "transom_follow_wave",
    help: "Its wave, from 1",
    source: OF_FOLLOW,
    ..PLAIN
};

pub const COPIED_LEASE_END: Definition = Definition {
    name: "transom_follow_lease_end_timestamp",
    base: Base::Seconds,
    help: "When the lease ends that was copied last, since 1970",
    source: OF_FOLLOW,
    ..PLAIN
};

pub const LAST_COPY: Definition = Definition {
    name: "transom_follow_last_look_timestamp",
    base: Base::Seconds,
    help: "When the object storage last said what there is, since 1970",
    source: OF_FOLLOW,
    ..PLAIN
};

pub const ALL: &[Definition] = &[
    GENERATION,
    WAVE,
    HOSTS,
    LEASE_END,
    CHANGE,
    CHANCE,
    TAKEN_BACK,
    LAST_STEP,
    COPIED,
    COPIED_WAVE,
    COPIED_LEASE_END,
    LAST_COPY,
];
