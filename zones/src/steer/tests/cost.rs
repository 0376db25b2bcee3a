//! What a choice costs, measured by hand:
//! `cargo test --release -p fairway-zones --lib -- --ignored --nocapture what_a_choice_costs`.

use std::{hint::black_box, time::Instant};

use fairway_model::Policy;

use super::*;

const ROUNDS: usize = 9;
const CHOICES: u32 = 2_000_000;

fn scene(policy: Policy, count: usize, answers: u8) -> Scene {
    let members: Vec<_> = (0..count).map(|i| format!("m{i}:{}", 1 + i * 7 % 100)).collect();
    Scene::new(policy, &members.join(" "), |pool| pool.answers = answers)
}

/// Nanoseconds a choice, median and spread over the rounds.
fn measure(scene: &Scene) -> [f64; 3] {
    let runtime = scene.runtime(&scene.all("u"));
    let mut rounds: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for i in 0..CHOICES {
                let client = scene.steer.client_net(black_box(network(i)));
                black_box(scene.steer.choose(Kind::V4, black_box(&runtime), client, Draw(0), &mut ()));
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(CHOICES)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    [rounds[ROUNDS / 2], rounds[0], rounds[ROUNDS - 1]]
}

#[test]
#[ignore = "a measurement, meant for --release"]
fn what_a_choice_costs() {
    for policy in [Policy::FAILOVER, Policy::WEIGHTED] {
        for (count, answers) in [(1, 1), (3, 1), (16, 1), (255, 1), (3, 2), (16, 2)] {
            let [median, least, most] = measure(&scene(policy.clone(), count, answers));
            println!("{policy:?}, {count} members, {answers} an answer: {median:.1} ns ({least:.1} to {most:.1})");
        }
    }
}
