//! docs/agent-columns.md is made from the lists of columns:
//! `TRANSOM_WRITE_DOCS=1 cargo test -p transom-spool --test columns`.

use std::fmt::Write;

use transom_spool::{AgentRow, Connection, Decision, HostRow, Kind, Row};

const HEAD: &str = "\
# Columns of the agent's files

What [`transom agent`](agent.md) writes, column by column. Names in parentheses are fields of the \
kernel's `tcp_sock`. Columns are only ever added. *Technical* says nothing about a person; \
*personal* can be related to one by those who have other data, too; *address* is null unless the \
configuration has `addresses = \"full\"`. A test keeps this page equal to the program.
";

const CONNECTIONS: &str = "\
`connections-….parquet`: one row when a connection ends or fails, and one every five minutes while \
bytes move. Counters are those of the whole connection: of several rows with the same `cookie`, \
the last one has all.";

const DECISIONS: &str = "`decisions-….parquet`: level 1. One row per rare decision of the kernel.";

const AGENT: &str = "\
`agent-….parquet`: what the agent says of itself, so that whoever reads the rows knows what is \
missing.";

const HOSTS: &str = "\
Not of the agent: what [`transom-fleet ship`](fleet.md#the-hosts) says of its machine. What cannot be \
read is null. `host` and `boot` come first, as in all tables that landed.";

fn table<T: Row>(to: &mut String, name: &str, about: &str) {
    writeln!(to, "\n## {name}\n\n{about}\n").unwrap();
    writeln!(to, "| column | type | unit | meaning | privacy |\n|---|---|---|---|---|").unwrap();
    for column in T::columns() {
        let kind = match column.kind {
            Kind::Integer => "integer",
            Kind::Time => "timestamp, UTC",
            Kind::Real => "double",
            Kind::Text => "text",
        };
        let (unit, meaning, privacy) = (column.unit, column.meaning, column.privacy.name());
        writeln!(to, "| `{}` | {kind} | {unit} | {meaning} | {privacy} |", column.name).unwrap();
    }
}

#[test]
fn the_page_of_columns_has_those_that_the_program_writes() {
    let mut page = String::from(HEAD);
    table::<Connection>(&mut page, "connections", CONNECTIONS);
    table::<Decision>(&mut page, "decisions", DECISIONS);
    table::<AgentRow>(&mut page, "agent", AGENT);
    table::<HostRow>(&mut page, "hosts", HOSTS);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agent-columns.md");
    if std::env::var_os("TRANSOM_WRITE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page, "docs/agent-columns.md is not what the lists of columns make");
}
