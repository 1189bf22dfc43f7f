//! Alert rules of shippers and roll-outs. Those of the agents come with the agent.

use transom_metrics::alerts::{Alert, rules as written};
use transom_metrics::queries::{ANY, TEN_MINUTES as TEN};
use transom_metrics::rollout;
use transom_metrics::ship as define;

pub const HEAD: &str = "# Made by transom-fleet dashboard --rules\n";

pub fn rules() -> String {
    written(HEAD, vec![("fleet-ship", of_shipper()), ("fleet-policy", of_policies())])
}

fn of_shipper() -> Vec<Alert> {
    let may_pass = "refusal=~\"slower|unreachable\"";
    let stays = "refusal!~\"slower|unreachable\"";
    vec![
        Alert {
            name: "TransomShipBehind",
            expr: format!("{} > 3600", ANY.now(&define::OLDEST)),
            lasting: "15m",
            severity: "warning",
            summary: "{{ $labels.instance }} has not shipped files of {{ $value | humanizeDuration }}",
            description: "The store asks for fewer requests, or cannot be reached. The agent removes the oldest files when its spool is full.",
        },
        Alert {
            name: "TransomShipSilent",
            expr: format!("time() - {} > 3600", ANY.now(&define::LAST_LOOK)),
            lasting: "15m",
            severity: "warning",
            summary: "The shipper of {{ $labels.instance }} has not emptied its spool for an hour",
            description: "It does not run, or cannot get rid of what is there: `systemctl status transom-fleet-ship`.",
        },
        Alert {
            name: "TransomShipRefusedFiles",
            expr: format!("{} > 0", ANY.now(&define::REFUSED)),
            lasting: "0m",
            severity: "warning",
            summary: "{{ $value }} files of {{ $labels.instance }} cannot be shipped, and stay",
            description: "Damaged, of a newer format, or two machines have one name: the shipper's messages name each.",
        },
        Alert {
            name: "TransomShipStopped",
            expr: format!("{} > 0", ANY.labelled(&define::TROUBLES, stays)),
            lasting: "5m",
            severity: "critical",
            summary: "The shipper of {{ $labels.instance }} ended: {{ $labels.refusal }}",
            description: "Somebody has to change something: keys, region, bucket or clock. Its last message says what.",
        },
        Alert {
            name: "TransomShipTroubles",
            expr: format!("{} > 0.01", TEN.rate_of(&define::TROUBLES, may_pass)),
            lasting: "30m",
            severity: "info",
            summary: "{{ $labels.instance }} meets trouble on its way: {{ $labels.refusal }}",
            description: "More than one attempt in 100 s fails. Files wait and go later.",
        },
        // Whoever reaches nothing tries once in ten minutes: a rate of troubles tells nothing of that.
        Alert {
            name: "TransomShipStuck",
            expr: format!(
                "{} > 0 unless on (instance) changes({}[20m]) != 0",
                ANY.now(&define::WAITING),
                ANY.now(&define::FILES)
            ),
            lasting: "10m",
            severity: "warning",
            summary: "{{ $value }} files of {{ $labels.instance }} wait, and none has landed for half an hour",
            description: "The store cannot be reached, or takes nothing, or the shipper does not run: its last message says which. Files wait and go later.",
        },
    ]
}

fn of_policies() -> Vec<Alert> {
    vec![
        Alert {
            name: "TransomPolicyTakenBack",
            expr: format!("{} > 0", ANY.now(&rollout::TAKEN_BACK)),
            lasting: "0m",
            severity: "critical",
            summary: "A gate took generation {{ $value }} of the policies back",
            description: "It did harm: `transom-fleet policy status` says which gate found what. Another roll-out ends this.",
        },
        Alert {
            name: "TransomPolicyLeaseEnds",
            expr: format!("time() - {} > -600", ANY.now(&rollout::LEASE_END)),
            lasting: "2m",
            severity: "critical",
            summary: "In ten minutes or less all hosts go back to no policy",
            description: "Nobody renews the lease: no steps are taken, or no host has rows (`transom-fleet policy step` says so).",
        },
        Alert {
            name: "TransomPolicyStepSilent",
            expr: format!("time() - {} > 1200", ANY.now(&rollout::LAST_STEP)),
            lasting: "5m",
            severity: "warning",
            summary: "{{ $labels.instance }} has taken no step of the roll-out for 20 minutes",
            description: "It does not run, or each step fails: `systemctl status transom-fleet-step`.",
        },
        Alert {
            name: "TransomFollowSilent",
            expr: format!("time() - {} > 1800", ANY.now(&rollout::LAST_COPY)),
            lasting: "15m",
            severity: "warning",
            summary: "{{ $labels.instance }} has not seen for half an hour which policy it is to have",
            description: "It does not run, or does not reach the storage: `systemctl status transom-fleet-follow`. Its lease ends by itself.",
        },
    ]
}
