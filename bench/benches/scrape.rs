//! Reading the statistics of one gateway that has many services: `cargo bench -p fairway-bench --bench scrape`. The row `max alloc` has the
//! memory of the statistics that are kept; the text arrives in pieces and is not kept.

use std::{fmt::Write as _, hint::black_box, sync::Arc};

use divan::{AllocProfiler, Bencher, counter::BytesCount};
use fairway_health::load::{Exposition, GatewayCollector};
use fairway_model::ExposedServices;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// Upstream clusters of the gateway, one for each service.
const CLUSTERS: usize = 10_000;
/// Bytes that arrive at once.
const PIECE: usize = 16 << 10;

/// Returns what a gateway exports that has `inclusionRegexps` for its services, with the labels that Istio adds.
fn text() -> String {
    let mut text = "envoy_http_outbound_0_0_0_0_8080_downstream_rq_active{} 20\n".to_owned();
    for metric in ["membership_healthy", "membership_total", "upstream_rq_active"] {
        let _ = writeln!(text, "# TYPE envoy_cluster_{metric} gauge");
        for cluster in 0..CLUSTERS {
            let service = format!("service-{cluster}.team-{}.svc.cluster.local", cluster % 50);
            let _ =
                writeln!(text, "envoy_cluster_{metric}{{cluster_name=\"outbound|8080||{service}\"}} {}", cluster % 7);
        }
    }
    text
}

#[divan::bench(args = ["all", "none"])]
fn exposed(bencher: Bencher<'_, '_>, exposed: &str) {
    let text = text();
    let services = (0..if exposed == "all" { CLUSTERS } else { 1 })
        .map(|cluster| (Arc::from(format!("team-{}/service-{cluster}", cluster % 50)), 1));
    let services: ExposedServices = services.collect();
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| {
        let mut exposition = Exposition::new(16 << 20);
        let mut collector = GatewayCollector::new(None, 95).with_services(services.clone());
        for piece in black_box(&text).as_bytes().chunks(PIECE) {
            exposition.feed(piece, &mut |sample| collector.add_sample(sample)).expect("the text is valid");
        }
        collector.finish().expect("it has a signal")
    });
}
