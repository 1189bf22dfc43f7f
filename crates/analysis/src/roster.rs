//! Who the connections of a trace are, without their events: what it takes to choose some of them, in
//! memory that does not grow with the trace.

use std::collections::{HashMap, HashSet};

use transom_event::{Event, Kind};

use crate::families::family_order;
use crate::recording::Sockets;
use crate::{Connection, Identified, Identity, Live, NoneMatches, Selector, select};

struct Member {
    /// Without points and marks.
    connection: Connection,
    program: String,
    live: Live,
}

impl Identified for Member {
    fn identity(&self) -> Identity<'_> {
        Identity {
            cookie: self.connection.cookie,
            tgid: self.connection.tgid,
            program: &self.program,
            ends: self.connection.endpoints(),
            mptcp: self.connection.mptcp(),
        }
    }
}

/// The connections of a trace.
#[derive(Default)]
pub struct Roster {
    members: HashMap<u64, Member>,
    sockets: Sockets,
}

/// Some of them, as their events come from the beginning of the trace on.
pub struct Chosen {
    cookies: HashSet<u64>,
    sockets: Sockets,
}

impl Chosen {
    /// Whether an event is of one of them; all are asked about.
    pub fn has(&mut self, event: &Event) -> bool {
        self.cookies.contains(&self.sockets.connection_of(event))
    }
}

impl Roster {
    pub fn push(&mut self, event: &Event) {
        if event.kind == Kind::Lost {
            return;
        }
        let (cookie, first_ns) = (self.sockets.connection_of(event), event.time_ns);
        let member = self.members.entry(cookie).or_insert_with(|| Member {
            connection: Connection { cookie, first_ns, ..Connection::default() },
            program: String::new(),
            live: Live::default(),
        });
        member.connection.learn(event);
        member.live.push(event);
    }

    /// Those that any of `wanted` means.
    ///
    /// # Errors
    /// One of `wanted` means none of them.
    pub fn chosen(self, wanted: &[(String, Selector)]) -> Result<Chosen, NoneMatches> {
        let mut members: Vec<Member> = self.members.into_values().collect();
        for member in &mut members {
            member.program = member.connection.program();
        }
        // As `analyse` has them: an error names those with the most bytes.
        members.sort_by_key(|member| (member.connection.first_ns, member.connection.cookie));
        family_order(
            &mut members,
            |member| member.connection.mptcp(),
            |member| [member.live.acked() + member.live.received(), 0],
            |member| member.connection.first_ns,
        );
        let chosen = select(&members, wanted)?;
        let cookies = chosen.iter().map(|member| member.connection.cookie).collect();
        Ok(Chosen { cookies, sockets: Sockets::default() })
    }
}
