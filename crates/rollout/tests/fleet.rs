//! A thousand hosts in virtual time: a generation that harms some of them is undone early, a harmless
//! one is not. Seeds are the same in each run.

use transom_rollout::{
    Gate, History, Metric, Rollout, Step, Sums, Waves, Windows, Worse, contrasts,
};

const HOSTS: u64 = 1_000;
/// Windows of ten minutes before the generation.
const BEFORE: i64 = 18;

/// splitmix64 (Steele, Lea, Flood 2014), as a function of what is asked for.
fn random(seed: u64, what: u64, host: u64, window: i64) -> f64 {
    let mut state = seed;
    let mut mix = |value: u64| {
        state = (state ^ value).wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    };
    for value in [what, host, window as u64] {
        mix(value);
    }
    ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Standard normal (Box and Muller 1958).
fn normal(seed: u64, what: u64, host: u64, window: i64) -> f64 {
    let radius = (-2.0 * random(seed, 2 * what, host, window).ln()).sqrt();
    radius * (std::f64::consts::TAU * random(seed, 2 * what + 1, host, window)).cos()
}

#[derive(Clone, Copy)]
struct World {
    seed: u64,
    /// Share of hosts that the generation harms, and by which factor it loses more there.
    harmed: f64,
    factor: f64,
    /// How often a host has a window of five times as many losses, whatever it has.
    bursts: f64,
}

impl World {
    fn is_harmed(&self, host: u64) -> bool {
        random(self.seed, 90, host, 0) < self.harmed
    }

    /// What the rows of a host's connections add up to in a window.
    fn sums(&self, host: u64, window: i64, has: bool) -> Sums {
        let sent = 20_000.0
            * (0.8 * normal(self.seed, 1, host, 0) + 0.4 * normal(self.seed, 2, host, window))
                .exp();
        let day = 1.0 + 0.5 * (window as f64 / 144.0 * std::f64::consts::TAU).sin();
        let rate = 0.01
            * day
            * (0.7 * normal(self.seed, 3, host, 0) + 0.3 * normal(self.seed, 4, host, window))
                .exp();
        let burst = if random(self.seed, 91, host, window) < self.bursts { 5.0 } else { 1.0 };
        let harm = if has && self.is_harmed(host) { self.factor } else { 1.0 };
        let mean = (sent * rate * burst * harm).min(sent / 2.0);
        // Counted, so that few are uncertain.
        let lost = (mean + mean.sqrt() * normal(self.seed, 5, host, window)).round().max(0.0);
        Sums { of: lost, per: sent }
    }
}

fn gate(tolerate: f64) -> Gate {
    let metric: Metric = "retransmitted / sent".parse().unwrap();
    Gate { name: "loss".to_owned(), metric, worse: Worse::Higher, tolerate, least: 100.0 }
}

#[derive(Debug)]
struct Ended {
    undone: bool,
    /// Share of all hosts that had it at some time.
    reached: f64,
    windows: i64,
}

fn roll_out(world: World, gate: &Gate) -> Ended {
    let mut history = History {
        waves: Waves::default(),
        generation: 7,
        first: "host-0".to_owned(),
        began: vec![0],
    };
    let names: Vec<String> = (0..HOSTS).map(|host| format!("host-{host}")).collect();
    let before =
        |host| (-BEFORE..0).map(|at| (at, world.sums(host, at, false))).collect::<Windows>();
    let mut hosts: Vec<(String, Windows)> =
        names.iter().zip(0..).map(|(name, host)| (name.clone(), before(host))).collect();
    let mut reached = vec![false; HOSTS as usize];
    let mut rollout = Rollout::default();
    for window in 0.. {
        for (number, (name, windows)) in hosts.iter_mut().enumerate() {
            let has = history.had(name, window);
            reached[number] |= has;
            windows.push((window, world.sums(number as u64, window, has)));
        }
        let judged = gate.judge(&contrasts(&history, &hosts, gate.least));
        let step = rollout.after(&history.waves, &[judged]);
        let undone = matches!(step, Step::Undo(_));
        if undone || step == Step::Done {
            let share = reached.iter().filter(|it| **it).count() as f64 / HOSTS as f64;
            return Ended { undone, reached: share, windows: window + 1 };
        }
        if step == Step::Next {
            history.began.push(window + 1);
        }
    }
    unreachable!("a roll-out has an end")
}

const HARMLESS: World = World { seed: 0, harmed: 0.0, factor: 1.0, bursts: 0.002 };

/// `TRANSOM_SEEDS=100` for the figures of docs/rollout.md.
fn number_of_seeds() -> u64 {
    std::env::var("TRANSOM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

fn seeds(world: World, gate: &Gate, number: u64) -> Vec<Ended> {
    (1..=number).map(|seed| roll_out(World { seed, ..world }, gate)).collect()
}

#[test]
fn what_harms_a_twentieth_of_the_hosts_is_undone_before_a_ninth_had_it() {
    let world = World { harmed: 0.05, factor: 2.0, ..HARMLESS };
    let number = number_of_seeds();
    let all = seeds(world, &gate(0.1), number);
    assert!(all.iter().all(|it| it.undone), "{all:?}");
    let early = all.iter().filter(|it| it.reached <= 0.11).count() as u64;
    let mut windows: Vec<i64> = all.iter().map(|it| it.windows).collect();
    windows.sort_unstable();
    let middle = windows[windows.len() / 2];
    println!("undone before 11 % had it: {early} of {number}; after {middle} windows (median)");
    assert!(early * 10 >= number * 9, "{early} of {number}");
    // The control: a gate that tolerates everything lets it through.
    let through = roll_out(World { seed: 1, ..world }, &gate(1e6));
    assert!(!through.undone && through.reached > 0.99, "{through:?}");
}

#[test]
fn what_harms_nobody_is_not_undone() {
    for bursts in [0.0, 0.002, 0.02] {
        let number = number_of_seeds();
        let all = seeds(World { bursts, ..HARMLESS }, &gate(0.1), number);
        let undone = all.iter().filter(|it| it.undone).count() as u64;
        println!("bursts {bursts}: {undone} of {number} undone");
        assert!(undone * 100 <= number, "{undone} of {number} with bursts {bursts}");
        assert!(all.iter().all(|it| it.undone || it.reached > 0.99));
    }
}

#[test]
fn what_helps_is_not_undone_and_what_makes_all_a_little_worse_is() {
    let helps = seeds(World { harmed: 1.0, factor: 0.5, ..HARMLESS }, &gate(0.1), 10);
    assert!(helps.iter().all(|it| !it.undone));
    let worse = seeds(World { harmed: 1.0, factor: 1.3, ..HARMLESS }, &gate(0.1), 10);
    assert!(worse.iter().all(|it| it.undone && it.reached < 0.11), "{worse:?}");
    // Within what is tolerated.
    let little = seeds(World { harmed: 1.0, factor: 1.03, ..HARMLESS }, &gate(0.1), 10);
    assert!(little.iter().all(|it| !it.undone));
}
