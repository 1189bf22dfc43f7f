//! The policy by which a connection comes to use `steady`.

pub const STEADY: &str = "steady";

pub const RULES: &str = r#"guard = { on = false }
[[rule]]
match = { rtt = "0ms.." }
action = { algorithm = "steady" }
"#;

/// What `transom tune apply` says when new connections are reached.
pub const IN_FORCE: &str = "is in force";
