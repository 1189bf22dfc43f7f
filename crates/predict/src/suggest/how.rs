//! How a change is made: commands, on what they depend, and how to verify the outcome.

use super::{Machine, Place, is_elsewhere, needed};
use crate::change::{Change, Lift, Steady};
use crate::model::Model;
use crate::policy::{For, keys, policy};
use crate::whatif::Prediction;

pub struct How<'a> {
    pub of: &'a For<'a>,
    pub machine: &'a Machine,
    pub model: &'a Model,
}

/// All that is to be said of one change but its effect.
pub struct Way {
    pub place: Place,
    pub commands: Vec<String>,
    pub conditions: Vec<String>,
    pub verification: Vec<String>,
    pub policy: Option<String>,
}

impl Way {
    fn elsewhere(condition: String) -> Way {
        let conditions = vec![condition];
        let (commands, verification) = (Vec::new(), Vec::new());
        Way { place: Place::Elsewhere, commands, conditions, verification, policy: None }
    }
}

/// Where the automatic buffers of new sockets begin: `tcp_wmem` and `tcp_rmem` of Linux, bytes.
const SEND_MEMORY: [u64; 2] = [4096, 16384];
const RECEIVE_MEMORY: &str = "4096 131072";
/// Of a buffer, data gets a half or more (`tcp_adv_win_scale`, `scaling_ratio`).
const OVERHEAD: f64 = 2.0;
/// A path whose rate is not known may carry so many times more than it did.
const MORE: f64 = 4.0;
/// A buffer that is this share of the largest automatic one is that.
const LARGEST: f64 = 0.9;

impl How<'_> {
    pub fn of(&self, it: &Prediction) -> Way {
        match it.change.lift {
            Some(lift) if is_elsewhere(lift) => Way::elsewhere(elsewhere(lift).to_owned()),
            Some(Lift::SendBuffer) => self.send_buffer(),
            Some(_) => self.receiver_window(),
            None if it.change.is_policy() => self.tune(it),
            None => self.sysctl(&it.change),
        }
    }

    fn tune(&self, it: &Prediction) -> Way {
        let mut commands = Vec::new();
        if let Some(name) = needed(it) {
            let has = |all: &[String]| all.iter().any(|one| one == name);
            match (has(&self.machine.algorithms), has(&self.machine.modules)) {
                (true, _) => {}
                (false, true) => commands.push(format!("sudo modprobe tcp_{name}")),
                (false, false) => {
                    return Way::elsewhere(format!(
                        "this kernel has no {name}, and no module tcp_{name}"
                    ));
                }
            }
        }
        let mut set = "sudo transom tune set".to_owned();
        let [action, matching] = keys(self.of, &it.change, self.model);
        for (key, value) in action.iter().chain(&matching) {
            set += &format!(" --{} {}", key.replace('_', "-"), value.trim_matches('"'));
        }
        commands.push(set);
        let mut conditions = Vec::new();
        if it.change.algorithm.as_deref() == Some(Steady::NAME) {
            let guard = "the guard withdraws it while it harms others (docs/policy.md); the \
                         prediction is without the guard";
            conditions.push(guard.to_owned());
        }
        if it.change.initial_window.is_some() {
            conditions.push("only connections that begin later get it".to_owned());
        }
        // The trace does not tell the parameters of `steady`.
        let words = it.change.steady.map(|_| format!(" --policy {}", quoted(self.of.policy)));
        let verification = self.verification(&words.unwrap_or_default());
        let policy = policy(self.of, it, self.model);
        Way { place: Place::Tune, commands, conditions, verification, policy }
    }

    fn sysctl(&self, change: &Change) -> Way {
        let assigned = |it: (&String, &String)| format!("{}={}", it.0, it.1);
        let all: Vec<String> = change.sysctl.iter().map(assigned).collect();
        let commands = all.iter().map(|it| format!("sudo sysctl -w net.{it}")).collect();
        let words: String = all.iter().map(|it| format!(" --sysctl {it}")).collect();
        let conditions = vec!["it concerns every connection of this machine".to_owned()];
        let verification = self.verification(&words);
        Way { place: Place::Sysctl, commands, conditions, verification, policy: None }
    }

    fn send_buffer(&self) -> Way {
        let sender = &self.model.sender;
        let own = u64::from(sender.send_buffer.unwrap_or(0)) * 2;
        let memory = self.machine.send_memory;
        let is_largest = memory.is_some_and(|[_, _, most]| own as f64 >= LARGEST * most as f64);
        let wanted = self.memory(own as f64 / OVERHEAD);
        // What the kernel let grow is no program's, whatever this machine has by now.
        if !is_largest && !sender.send_buffer_grew {
            return Way::elsewhere(format!(
                "its program has set SO_SNDBUF ({} bytes): it must leave that out, or set {} \
                 (net.core.wmem_max must be as large)",
                own / 2,
                wanted / 2
            ));
        }
        let [least, initial, most] = memory.unwrap_or([SEND_MEMORY[0], SEND_MEMORY[1], own]);
        if !is_largest && most >= wanted {
            return Way::elsewhere(format!(
                "the send buffer could not grow beyond {own} bytes; this machine lets that of a \
                 new connection grow to {most} (net.ipv4.tcp_wmem)"
            ));
        }
        // One that limits is too small, also where the path seems to hold no more.
        let wanted = wanted.max((own.max(most) + 1).next_power_of_two());
        let (least, initial) = (SEND_MEMORY[0].max(least), SEND_MEMORY[1].max(initial).min(wanted));
        Way {
            place: Place::Sysctl,
            commands: vec![format!(
                "sudo sysctl -w net.ipv4.tcp_wmem=\"{least} {initial} {wanted}\""
            )],
            conditions: vec![
                "it concerns every new connection of this machine whose program does not set \
                 SO_SNDBUF"
                    .to_owned(),
            ],
            verification: self.verification(""),
            policy: None,
        }
    }

    fn receiver_window(&self) -> Way {
        let window = self.model.receiver.window.as_ref().map_or(0.0, |it| it.value);
        let wanted = self.memory(window);
        let receiver = self.of.ends.remote.ip();
        Way {
            place: Place::Receiver,
            commands: vec![format!(
                "sudo sysctl -w net.ipv4.tcp_rmem=\"{RECEIVE_MEMORY} {wanted}\"   # on {receiver}"
            )],
            conditions: vec![
                "it concerns new connections of the receiver whose program does not set SO_RCVBUF; \
                 one that does must leave it out"
                    .to_owned(),
            ],
            verification: self.verification(""),
            policy: None,
        }
    }

    /// Memory of a buffer that lets the path and its queue be filled, bytes: a power of two.
    fn memory(&self, now: f64) -> u64 {
        let path = &self.model.path;
        let rate = path.policer.as_ref().map_or(path.rate.value, |it| it.rate.value);
        let holds = rate * path.rtt_s.value;
        let queue = (path.queue.value * self.model.packet).min(holds);
        let wanted = if path.is_open() { MORE * now } else { (holds + queue).max(now) };
        ((wanted * OVERHEAD).ceil().max(65536.0) as u64).next_power_of_two()
    }

    fn verification(&self, words: &str) -> Vec<String> {
        let (trace, port) = (quoted(self.of.trace), self.of.port());
        vec![
            format!("sudo transom record -o after.parquet --port {port}"),
            format!("transom whatif --verify{words} {trace} after.parquet"),
        ]
    }
}

fn elsewhere(lift: Lift) -> &'static str {
    match lift {
        Lift::Application => "the sending program must write sooner",
        Lift::Reader => "the receiving program must read faster",
        Lift::Pacing => "the program must raise SO_MAX_PACING_RATE",
        Lift::Device => "this machine's device, or its queueing discipline, must be faster",
        Lift::SendBuffer | Lift::ReceiverWindow => "",
    }
}

/// As a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
