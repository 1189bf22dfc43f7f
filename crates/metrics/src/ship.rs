//! Every metric of the shipper. The page docs/fleet.md has them.

use crate::definition::{Base, COUNTED, Definition, PLAIN};

const OF_SHIPPER: &str = "`transom-fleet ship`";

pub const FILES: Definition = Definition {
    name: "transom_ship_files",
    labels: &["table"],
    help: "Files that landed",
    source: OF_SHIPPER,
    ..COUNTED
};

pub const ROWS: Definition = Definition {
    name: "transom_ship_rows",
    labels: &["table"],
    help: "Rows that landed",
    source: OF_SHIPPER,
    ..COUNTED
};

pub const BYTES: Definition = Definition {
    name: "transom_ship",
    base: Base::Bytes,
    help: "Bytes that landed",
    source: OF_SHIPPER,
    ..COUNTED
};

pub const GIVEN_UP: Definition = Definition {
    name: "transom_ship_given_up_rows",
    labels: &["table"],
    help: "Rows that were removed before they could be shipped, and events above their bound",
    source: OF_SHIPPER,
    ..COUNTED
};

pub const WAITING: Definition = Definition {
    name: "transom_ship_waiting_files",
    help: "Finished files that wait",
    source: OF_SHIPPER,
    ..PLAIN
};

pub const OLDEST: Definition = Definition {
    name: "transom_ship_oldest_waiting",
    base: Base::Seconds,
    help: "Age of the oldest finished file that waits",
    source: OF_SHIPPER,
    ..PLAIN
};

pub const REFUSED: Definition = Definition {
    name: "transom_ship_refused_files",
    help: "Files that cannot go: damaged, of a newer format, or of a name that is taken",
    source: OF_SHIPPER,
    ..PLAIN
};

pub const TROUBLES: Definition = Definition {
    name: "transom_ship_troubles",
    labels: &["refusal"],
    help: "Attempts that failed, by what was refused",
    source: OF_SHIPPER,
    ..COUNTED
};

pub const LAST_LOOK: Definition = Definition {
    name: "transom_ship_last_look_timestamp",
    base: Base::Seconds,
    help: "When the last look at the spool left nothing waiting, since 1970",
    source: OF_SHIPPER,
    ..PLAIN
};

pub const ALL: &[Definition] =
    &[FILES, ROWS, BYTES, GIVEN_UP, WAITING, OLDEST, REFUSED, TROUBLES, LAST_LOOK];
