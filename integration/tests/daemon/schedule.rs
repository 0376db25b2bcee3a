//! A schedule transition on a running server: the answer changes then and not before, and the status gives the reason.

use std::time::{Duration, SystemTime};

use fairway_integration::{
    load::{resolve, wait_answer},
    real::{Fairway, wait_until},
};
use fairway_model::Timestamp;

use super::{LIMIT, NAME, said, state, traces};

const DAY: [&str; 1] = ["192.0.2.1"];
const NIGHT: [&str; 1] = ["192.0.2.2"];

/// Time until the transition: enough for a reload, also on a busy machine.
const AHEAD: Duration = Duration::from_secs(8);

/// Returns a configuration in which the first cluster serves before a moment, the second one from it on.
fn config(edge: &str) -> String {
    format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
clusters: [{{ name: day, addresses: [{}] }}, {{ name: night, addresses: [{}] }}]
monitors: [{{ name: unchecked, type: always }}]
pools:
- name: shop
  policy: [schedule, weighted]
  monitor: unchecked
  members:
  - {{ cluster: day, open: [{{ before: \"{edge}\" }}] }}
  - {{ cluster: night, open: [{{ after: \"{edge}\" }}] }}
names: [{{ name: {NAME}, pool: shop }}]
",
        DAY[0], NIGHT[0]
    )
}

#[test]
fn answer_changes_at_a_schedule_transition_and_explain_names_it() {
    let server = Fairway::start(&config("2100-01-01T00:00:00Z"), &[]);
    wait_answer(server.dns, NAME, &DAY, LIMIT);
    let edge = Timestamp::from_secs(Timestamp::from(SystemTime::now() + AHEAD).secs());
    let explained = || said(&server.command(&["explain", NAME, "--client", "198.51.100.0/24"]));
    server.write_config(&config(&edge.to_string()));
    let opens = format!("closed: opens {edge}");
    wait_until("the server knows of the edge", LIMIT, || state(server.http).to_string().contains(&opens));
    let before = explained();
    assert!(before.contains(&opens) && before.contains(DAY[0]), "{before}");

    let mut seen_before = 0;
    wait_until("the answer is another one", LIMIT, || {
        let Some(reply) = resolve(server.dns, NAME) else { return false };
        if reply.is(&DAY) {
            seen_before += 1;
            return false;
        }
        assert!(reply.is(&NIGHT), "never both, never none");
        true
    });
    assert!(Timestamp::from(SystemTime::now()) >= edge, "the answer changed before the edge, {edge}");
    assert!(seen_before > 0);

    let after = explained();
    assert!(after.contains("closed: opens at no known time"), "{after}");
    let turned = || traces(&server.process.output(), "schedule transition").len();
    wait_until("each turn is logged", LIMIT, || turned() == 2);
    for to in ["open", "closed"] {
        assert_eq!(server.metric("fairway_schedule_transitions_total", &format!("\"{to}\"")), 1.0);
    }
}
