//! Which program sees what: for each purpose the ways to serve it, best first.

use std::fmt;

use transom_event::Kind;

/// How a probe is attached; the better, the earlier (design: fentry sees the
/// state before and after, a tracepoint only what its place allows).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    Fentry,
    Kprobe,
    Tracepoint,
    Iterator,
}

impl Tier {
    pub fn name(self) -> &'static str {
        match self {
            Tier::Fentry => "fentry",
            Tier::Kprobe => "kprobe",
            Tier::Tracepoint => "tracepoint",
            Tier::Iterator => "iterator",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a kernel must have for a candidate.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// A tracepoint with at least so many arguments.
    Tracepoint(&'static str, usize),
    /// A function that BTF knows.
    Function(&'static str),
    /// An iterator over this kind of thing.
    Iterator(&'static str),
}

/// One way to serve a purpose.
#[derive(Debug)]
pub struct Candidate {
    pub tier: Tier,
    pub programs: &'static [&'static str],
    pub needs: &'static [Need],
    /// What it cannot show, compared with the best.
    pub limit: &'static str,
}

/// One thing we want to see.
#[derive(Debug)]
pub struct Purpose {
    pub name: &'static str,
    /// Kinds of event it yields, or what it is good for.
    pub yields: &'static str,
    /// Those kinds, but for what is compared at every event (algorithm, clamp, action).
    pub kinds: &'static [Kind],
    pub candidates: &'static [Candidate],
}

use Need::{Function, Iterator as Walk, Tracepoint};

/// Everything the monitor looks at. Order is the order of `transom check`.
pub static PURPOSES: &[Purpose] = &[
    Purpose {
        name: "state",
        yields: "open, state, close",
        kinds: &[Kind::Open, Kind::State, Kind::Close],
        candidates: &[Candidate {
            tier: Tier::Tracepoint,
            programs: &["tp_state"],
            needs: &[Tracepoint("inet_sock_set_state", 3)],
            limit: "",
        }],
    },
    Purpose {
        name: "existing",
        yields: "open of connections that were there before",
        kinds: &[Kind::Open],
        candidates: &[Candidate {
            tier: Tier::Iterator,
            programs: &["existing_connections", "existing_owners"],
            needs: &[Walk("tcp"), Walk("task_file"), Function("bpf_sock_from_file")],
            limit: "",
        }],
    },
    Purpose {
        name: "ack",
        yields: "ack, dup_ack, sack, zero_window received",
        kinds: &[Kind::Ack, Kind::DupAck, Kind::Sack, Kind::ZeroWindow],
        candidates: &[
            Candidate {
                tier: Tier::Fentry,
                programs: &["fentry_ack", "fexit_ack"],
                needs: &[Function("tcp_rcv_established")],
                limit: "",
            },
            Candidate {
                tier: Tier::Kprobe,
                programs: &["tp_segment_entered", "kprobe_ack", "kretprobe_ack"],
                needs: &[
                    Tracepoint("tcp_probe", 2),
                    Function("tcp_rcv_established"),
                    Function("bpf_rdonly_cast"),
                ],
                limit: "",
            },
            Candidate {
                tier: Tier::Tracepoint,
                programs: &["tp_ack"],
                needs: &[Tracepoint("tcp_probe", 2)],
                limit: "state before the ACK is processed",
            },
        ],
    },
    Purpose {
        name: "send",
        yields: "send, zero_window sent",
        kinds: &[Kind::Send, Kind::ZeroWindow],
        candidates: &[Candidate {
            tier: Tier::Tracepoint,
            programs: &["tp_send"],
            needs: &[Tracepoint("net_dev_queue", 1)],
            limit: "",
        }],
    },
    Purpose {
        name: "retransmit",
        yields: "retransmit",
        kinds: &[Kind::Retransmit],
        candidates: &[
            Candidate {
                tier: Tier::Tracepoint,
                programs: &["tp_retransmit"],
                needs: &[Tracepoint("tcp_retransmit_skb", 3)],
                limit: "",
            },
            Candidate {
                tier: Tier::Tracepoint,
                programs: &["tp_retransmit_before_6_17"],
                needs: &[Tracepoint("tcp_retransmit_skb", 2)],
                limit: "",
            },
        ],
    },
    Purpose {
        name: "ca_state",
        yields: "ca_state",
        kinds: &[Kind::CaState],
        candidates: &[Candidate {
            tier: Tier::Tracepoint,
            programs: &["tp_ca_state"],
            needs: &[Tracepoint("tcp_cong_state_set", 2)],
            limit: "",
        }],
    },
    Purpose {
        name: "rto",
        yields: "rto",
        kinds: &[Kind::Rto],
        candidates: &[
            // It passes later in `tcp_enter_loss`, where reneging is known and the window is cut, and
            // where the path's MTU has shrunk, too. Each kernel whose kprobes we can use (6.2) has it.
            Candidate {
                tier: Tier::Tracepoint,
                programs: &["tp_ca_state"],
                needs: &[Tracepoint("tcp_cong_state_set", 2)],
                limit: "",
            },
            Candidate {
                tier: Tier::Fentry,
                programs: &["fentry_rto"],
                needs: &[Function("tcp_enter_loss")],
                limit: "without those for the path's MTU; those for reneging as of the timer",
            },
        ],
    },
    Purpose {
        name: "local_congestion",
        yields: "local_congestion",
        kinds: &[Kind::LocalCongestion],
        candidates: &[
            Candidate {
                tier: Tier::Fentry,
                programs: &["fexit_transmit4", "fexit_transmit6"],
                needs: &[Function("ip_queue_xmit"), Function("inet6_csk_xmit")],
                limit: "",
            },
            Candidate {
                tier: Tier::Kprobe,
                programs: &[
                    "kprobe_transmit4",
                    "kretprobe_transmit4",
                    "kprobe_transmit6",
                    "kretprobe_transmit6",
                ],
                needs: &[
                    Function("ip_queue_xmit"),
                    Function("inet6_csk_xmit"),
                    Function("bpf_rdonly_cast"),
                ],
                limit: "",
            },
            Candidate {
                tier: Tier::Tracepoint,
                programs: &["tp_drop"],
                needs: &[Tracepoint("kfree_skb", 3)],
                limit: "drops of the queueing discipline one by one, of a device without a queue once per window reduction",
            },
        ],
    },
    Purpose {
        name: "reset_received",
        yields: "reset received",
        kinds: &[Kind::Reset],
        candidates: &[Candidate {
            tier: Tier::Tracepoint,
            programs: &["tp_reset_received"],
            needs: &[Tracepoint("tcp_receive_reset", 1)],
            limit: "",
        }],
    },
    Purpose {
        name: "reset_sent",
        yields: "reset sent",
        kinds: &[Kind::Reset],
        candidates: &[
            Candidate {
                tier: Tier::Tracepoint,
                programs: &["tp_reset_sent_reason"],
                needs: &[Tracepoint("tcp_send_reset", 3)],
                limit: "",
            },
            Candidate {
                tier: Tier::Tracepoint,
                programs: &["tp_reset_sent"],
                needs: &[Tracepoint("tcp_send_reset", 2)],
                limit: "no reason",
            },
        ],
    },
    Purpose {
        name: "owner",
        yields: "owner; tgid and program of every event",
        kinds: &[Kind::Owner],
        candidates: &[
            Candidate {
                tier: Tier::Tracepoint,
                programs: &["tp_sendmsg", "tp_recvmsg"],
                needs: &[Tracepoint("sock_send_length", 3), Tracepoint("sock_recv_length", 3)],
                limit: "",
            },
            Candidate {
                tier: Tier::Fentry,
                programs: &["fentry_sendmsg", "fentry_recvmsg"],
                needs: &[Function("tcp_sendmsg"), Function("tcp_recvmsg")],
                limit: "",
            },
            Candidate {
                tier: Tier::Tracepoint,
                programs: &["tp_rcv_space_adjust"],
                needs: &[Tracepoint("tcp_rcv_space_adjust", 1)],
                limit: "who connects and who receives, not who only sends",
            },
        ],
    },
    Purpose {
        name: "children",
        yields: "filters by process follow its children",
        kinds: &[],
        candidates: &[Candidate {
            tier: Tier::Tracepoint,
            programs: &["tp_fork", "tp_exit"],
            needs: &[Tracepoint("sched_process_fork", 2), Tracepoint("sched_process_exit", 1)],
            limit: "",
        }],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_purpose_yields_is_what_it_says() {
        for purpose in PURPOSES {
            let words: Vec<&str> = purpose.yields.split([',', ';', ' ']).collect();
            for kind in Kind::ALL {
                let is_said = words.contains(&kind.name());
                assert_eq!(purpose.kinds.contains(kind), is_said, "{}: {kind}", purpose.name);
            }
        }
    }
}
