//! The errors that the end of a connection leaves in its socket, as Linux numbers them.

macro_rules! errors {
    ($($name:ident = $number:literal,)*) => {
        $(pub const $name: u32 = $number;)*
        const NAMES: &[(u32, &str)] = &[$(($number, stringify!($name)),)*];
    };
}

errors! {
    EACCES = 13,
    EPIPE = 32,
    ENONET = 64,
    EPROTO = 71,
    EMSGSIZE = 90,
    ENOPROTOOPT = 92,
    EOPNOTSUPP = 95,
    ENETDOWN = 100,
    ENETUNREACH = 101,
    ECONNABORTED = 103,
    ECONNRESET = 104,
    ETIMEDOUT = 110,
    ECONNREFUSED = 111,
    EHOSTDOWN = 112,
    EHOSTUNREACH = 113,
}

/// Those that say that nobody could be reached: an ICMP message came, or no answer to the look for the
/// neighbour's address. A timer that gives up leaves the one that came last, or ETIMEDOUT.
pub const UNREACHABLE: [u32; 6] = [ENETUNREACH, EHOSTUNREACH, EHOSTDOWN, ENETDOWN, ENONET, EACCES];

/// The name of one that the end of a connection may leave.
pub fn name(errno: u32) -> Option<&'static str> {
    NAMES.iter().find(|(number, _)| *number == errno).map(|(_, name)| *name)
}
