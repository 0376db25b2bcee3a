//! Load of clusters in `fairway status`.

use super::output::{Cell, Palette, Tone, span, table};
use fairway_api_types::{load_wire::LoadState, state_wire::ClusterState};

/// One line for each word on each cluster; nothing where nobody speaks of load.
pub(super) fn loads(palette: Palette, clusters: &[ClusterState]) -> String {
    let rows: Vec<Vec<Cell>> =
        clusters.iter().flat_map(|cluster| cluster.load.iter().map(move |load| row(cluster, load))).collect();
    match rows.is_empty() {
        true => String::new(),
        false => table(palette, 2, &["cluster", "load", "signal", "source", "age", "status", "problems"], &rows),
    }
}

/// One line for each cluster that is taken out.
pub(super) fn drains(palette: Palette, clusters: &[ClusterState], now: &str) -> String {
    let row = |cluster: &ClusterState| {
        let drain = cluster.drain.as_ref()?;
        let is_over = drain.over.as_str() <= now;
        let by = format!("{} {}", if is_over { "drained since" } else { "drained by" }, drain.over);
        let left = drain.left.map(|left| format!("{left} % of the demand still there"));
        let tone = if is_over { Tone::Good } else { Tone::Warn };
        Some(vec![cluster.name.as_str().into(), Cell::new(tone, by), left.unwrap_or_default().into()])
    };
    let rows: Vec<Vec<Cell>> = clusters.iter().filter_map(row).collect();
    if rows.is_empty() { String::new() } else { table(palette, 2, &["cluster", "", ""], &rows) }
}

fn row(cluster: &ClusterState, load: &LoadState) -> Vec<Cell> {
    let tone = match load.status.as_str() {
        "used" => Tone::Good,
        "unused" => Tone::Plain,
        _ => Tone::Warn,
    };
    let percent = |permille: u32| format!("{}.{} %", permille / 10, permille % 10);
    let unanswered = match (load.gateways_answering, load.gateways) {
        (Some(some), Some(all)) if some < all => Some(format!("{some} of {all} answer")),
        _ => None,
    };
    let own = load.source.is_some().then_some(&cluster.warnings).into_iter().flatten().cloned();
    let said: Vec<String> = load.failure.clone().into_iter().chain(unanswered).chain(own).collect();
    vec![
        cluster.name.as_str().into(),
        load.permille.map_or_else(|| "-".to_owned(), percent).into(),
        load.signal.clone().unwrap_or_default().into(),
        load.source.clone().unwrap_or_else(|| "(pushed)".to_owned()).into(),
        load.age_ms.map_or_else(|| "-".to_owned(), |millis| span(millis / 1000)).into(),
        Cell::new(tone, load.status.as_str()),
        said.join("; ").into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_is_taken_out_says_until_when_clients_are_there() {
        let drain = fairway_api_types::state_wire::DrainState {
            since: "2030-01-01T00:00:00Z".to_owned(),
            over: "2030-01-01T00:00:33Z".to_owned(),
            left: Some(12.5),
        };
        let eu1 = ClusterState { name: "eu1".to_owned(), drain: Some(drain), ..ClusterState::default() };
        let clusters = [eu1, ClusterState { name: "us1".to_owned(), ..ClusterState::default() }];
        let text = drains(Palette::PLAIN, &clusters, "2030-01-01T00:00:10Z");
        assert!(text.contains("eu1") && text.contains("drained by 2030-01-01T00:00:33Z"), "{text}");
        assert!(text.contains("12.5 % of the demand still there") && !text.contains("us1"), "{text}");
        assert!(drains(Palette::PLAIN, &clusters, "2030-01-01T00:00:33Z").contains("drained since"));
    }

    #[test]
    fn each_word_on_a_load_has_its_age_and_whether_it_counts() {
        let word = |source: Option<&str>, status: &str| LoadState {
            source: source.map(str::to_owned),
            permille: Some(725),
            signal: Some("inFlight".to_owned()),
            age_ms: Some(12_345),
            status: status.to_owned(),
            ..LoadState::default()
        };
        let failing = LoadState {
            failure: Some("status 503".to_owned()),
            gateways_answering: Some(1),
            gateways: Some(2),
            ..word(Some("gw"), "unused")
        };
        let cluster = ClusterState {
            name: "eu1".to_owned(),
            load: vec![word(None, "used"), failing],
            warnings: vec!["it drains".to_owned()],
            ..ClusterState::default()
        };
        let text = loads(Palette::PLAIN, &[cluster, ClusterState::default()]);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .skip(1)
            .map(|line| line.split("  ").map(str::trim).filter(|part| !part.is_empty()).collect())
            .collect();
        assert_eq!(lines[0], ["eu1", "72.5 %", "inFlight", "(pushed)", "12 s", "used"]);
        assert_eq!(
            lines[1],
            ["eu1", "72.5 %", "inFlight", "gw", "12 s", "unused", "status 503; 1 of 2 answer; it drains"]
        );
        assert_eq!(loads(Palette::PLAIN, &[ClusterState::default()]), "");
    }
}
