//! The numbered names of `bpf/event.h`, in the words the kernel and the RFCs use.

/// An enum over the bytes of the contract, with its written name for each value.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $value:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant = $value,)* }

        impl $name {
            /// Every value, in the order of its number.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The value with this number, if the contract knows it.
            pub fn from_number(number: u32) -> Option<Self> {
                match number { $($value => Some($name::$variant),)* _ => None }
            }

            /// The value with this written name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some($name::$variant),)* _ => None }
            }

            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

named!(
    /// What happened. The meaning of the two `aux` numbers depends on it.
    Kind {
        /// The connection is seen for the first time. aux: [`Origin`], 0.
        Open = 1, "open";
        /// The connection reached CLOSE. aux: errno of the socket, 0.
        Close = 2, "close";
        /// TCP state change (RFC 9293). aux: old, new [`TcpState`].
        State = 3, "state";
        /// A segment arrived on an established connection. aux: bytes newly acknowledged, cwnd before.
        Ack = 4, "ack";
        /// New data was handed to the device layer. aux: payload bytes, segments.
        Send = 5, "send";
        /// aux: [`RetransmitReason`] in the low 8 bits and segments above, sequence number.
        Retransmit = 6, "retransmit";
        /// Duplicate ACK (RFC 5681 section 2). aux: how many in a row, 1 if it carried SACK blocks.
        DupAck = 7, "dup_ack";
        /// SACK blocks arrived (RFC 2018, RFC 2883). aux: number of blocks, 1 if the first is a D-SACK.
        Sack = 8, "sack";
        /// The retransmission timer expired (RFC 6298). aux: timeouts in a row, [`RtoCause`].
        Rto = 9, "rto";
        /// The device or its queue on this machine refused a segment. aux: drop reason or return code, bytes.
        LocalCongestion = 10, "local_congestion";
        /// Congestion state of the sender. aux: old, new [`CaState`].
        CaState = 11, "ca_state";
        /// A reset was sent or received. aux: [`Direction`], reason (0 = not told).
        Reset = 12, "reset";
        /// A window of zero was advertised. aux: [`Direction`], 0.
        ZeroWindow = 13, "zero_window";
        /// The congestion control algorithm changed; the body names the new one.
        Algorithm = 14, "algorithm";
        /// `snd_cwnd_clamp` changed. aux: old, new.
        Clamp = 15, "clamp";
        /// Something Transom itself changed. aux: see [`crate::Action`].
        Action = 16, "action";
        /// Events that could not be recorded. aux: [`LossCause`], how many.
        Lost = 17, "lost";
        /// Another process uses the socket now; the body names it. aux: old tgid, 0.
        Owner = 18, "owner";
        /// State polled through sock_diag: a sample, not an event.
        Sample = 19, "sample";
    }
);

named!(
    /// The kernel function that was running.
    Place {
        Iterator = 1, "iter/tcp";
        SetState = 2, "tcp_set_state";
        RcvEstablished = 3, "tcp_rcv_established";
        Ack = 4, "tcp_ack";
        DevQueue = 5, "__dev_queue_xmit";
        RetransmitSkb = 6, "__tcp_retransmit_skb";
        SetCaState = 7, "tcp_set_ca_state";
        EnterLoss = 8, "tcp_enter_loss";
        EnterCwr = 9, "tcp_enter_cwr";
        QdiscDrop = 10, "qdisc_drop";
        SendReset = 12, "tcp_send_reset";
        Reset = 13, "tcp_reset";
        SendMsg = 14, "sock_sendmsg";
        RecvMsg = 15, "sock_recvmsg";
        RcvSpaceAdjust = 16, "tcp_rcv_space_adjust";
        SockDiag = 17, "sock_diag";
        TaskFile = 18, "iter/task_file";
        Recorder = 19, "recorder";
    }
);

named!(
    /// How a connection came into view.
    Origin {
        Connect = 1, "connect";
        Accept = 2, "accept";
        /// It was there before the probes were.
        Existing = 3, "existing";
    }
);

named!(
    Direction {
        Sent = 1, "sent";
        Received = 2, "received";
    }
);

named!(
    /// Why a segment was retransmitted.
    RetransmitReason {
        /// Loss recovery on duplicate ACKs or SACK (RFC 6675, RFC 8985).
        Fast = 1, "fast";
        /// The retransmission timer (RFC 6298).
        Rto = 2, "rto";
        /// After a timeout, on the ACKs that come back.
        SlowStart = 3, "slow_start";
        /// Tail loss probe (RFC 8985 section 7).
        Tlp = 4, "tlp";
        /// A SYN.
        Syn = 5, "syn";
    }
);

named!(
    /// Why the sender entered the Loss state.
    RtoCause {
        Timer = 1, "timer";
        /// The receiver took back what it had acknowledged selectively.
        Reneging = 2, "sack_reneging";
        /// The path's MTU shrank.
        Pmtu = 3, "pmtu";
    }
);

named!(
    /// Why an event could not be recorded.
    LossCause {
        Ring = 1, "ring_full";
        Storage = 2, "no_connection_memory";
        Recursion = 3, "probe_recursion";
        Segment = 4, "unreadable_segment";
        /// Counted in segments: new data that left without a `send` event.
        UnseenSend = 5, "unseen_send";
    }
);

named!(
    /// `enum tcp_ca_state` of the kernel.
    CaState {
        Open = 0, "open";
        Disorder = 1, "disorder";
        Cwr = 2, "cwr";
        Recovery = 3, "recovery";
        Loss = 4, "loss";
    }
);

named!(
    /// `tcp_sock.chrono_type`: what the kernel itself says the sender waits for.
    Chrono {
        Idle = 0, "idle";
        Busy = 1, "busy";
        ReceiveWindow = 2, "rwnd_limited";
        SendBuffer = 3, "sndbuf_limited";
    }
);

named!(
    /// RFC 9293 states, with the kernel's numbers.
    TcpState {
        Established = 1, "ESTABLISHED";
        SynSent = 2, "SYN_SENT";
        SynRecv = 3, "SYN_RECV";
        FinWait1 = 4, "FIN_WAIT1";
        FinWait2 = 5, "FIN_WAIT2";
        TimeWait = 6, "TIME_WAIT";
        Close = 7, "CLOSE";
        CloseWait = 8, "CLOSE_WAIT";
        LastAck = 9, "LAST_ACK";
        Listen = 10, "LISTEN";
        Closing = 11, "CLOSING";
        NewSynRecv = 12, "NEW_SYN_RECV";
    }
);

named!(
    /// Why Transom did something to a connection (`bpf/tuned.h`).
    Reason {
        /// `transom tune set`.
        ByHand = 1, "by_hand";
        NewConnection = 2, "new_connection";
        RuleMatched = 3, "rule_matched";
        RuleOver = 4, "rule_over";
        Unstable = 5, "unstable";
        GuardLoss = 6, "guard_loss";
        GuardInflation = 7, "guard_rtt_inflation";
        GuardRetry = 8, "guard_retry";
        Cleared = 9, "cleared";
        Peers = 10, "peers";
        /// The guard: others compete for the path.
        GuardShare = 11, "guard_share";
    }
);

impl Reason {
    /// What follows the word "because".
    pub fn because(self) -> &'static str {
        match self {
            Reason::ByHand => "it was asked for",
            Reason::NewConnection => "a new connection matches",
            Reason::RuleMatched => "it matches now",
            Reason::RuleOver => "it matches no longer",
            Reason::Unstable => "it is unstable",
            Reason::GuardLoss => "the guard saw too much loss",
            Reason::GuardInflation => "the guard saw the round trip grow",
            Reason::GuardRetry => "the guard's time is over",
            Reason::Cleared => "the policy was cleared",
            Reason::Peers => "the terminals agreed",
            Reason::GuardShare => "the guard saw others compete for the path",
        }
    }
}

named!(
    /// Algorithms that an action event can name; the `algorithm` event has the full name.
    Algorithm {
        /// The one the connection had before.
        Before = 0, "before";
        Steady = 1, "steady";
        Reno = 2, "reno";
        Cubic = 3, "cubic";
        Bbr = 4, "bbr";
        Dctcp = 5, "dctcp";
        Other = 255, "another algorithm";
    }
);
