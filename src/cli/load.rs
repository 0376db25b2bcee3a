//! Load and drains of clusters, for `fairway status`.

use super::output::{Cell, Palette, Tone, span, table};
use fairway_api_types::{load_wire::LoadState, state_wire::ClusterState};

/// Formats one row per load signal of each cluster. Returns an empty text if there is none.
pub(super) fn load_table(palette: Palette, clusters: &[ClusterState]) -> String {
    let rows = clusters.iter().flat_map(|cluster| cluster.load.iter().map(move |load| load_row(cluster, load)));
    table(palette, 2, &["cluster", "load", "signal", "source", "age", "status", "problems"], rows)
}

fn load_row(cluster: &ClusterState, load: &LoadState) -> Vec<Cell> {
    let tone = match load.status.as_str() {
        "used" => Tone::Good,
        "unused" => Tone::Plain,
        _ => Tone::Warn,
    };
    let percent = |permille: u32| format!("{}.{} %", permille / 10, permille % 10);
    let mut problems: Vec<String> = load.failure.iter().cloned().collect();
    if let (Some(some), Some(all)) = (load.gateways_answering, load.gateways)
        && some < all
    {
        problems.push(format!("{some} of {all} answer"));
    }
    // Warnings of gateways belong to the signals that are read from them, not to one that was pushed.
    if load.source.is_some() {
        problems.extend(cluster.warnings.iter().cloned());
    }
    vec![
        cluster.name.as_str().into(),
        load.permille.map_or_else(|| "-".to_owned(), percent).into(),
        load.signal.clone().unwrap_or_default().into(),
        load.source.clone().unwrap_or_else(|| "(pushed)".to_owned()).into(),
        load.age_ms.map_or_else(|| "-".to_owned(), |millis| span(millis / 1000)).into(),
        Cell::new(tone, load.status.as_str()),
        problems.join("; ").into(),
    ]
}

/// Formats one row per cluster that is drained. Returns an empty text if there is none.
pub(super) fn drain_table(palette: Palette, clusters: &[ClusterState], now: &str) -> String {
    let row = |cluster: &ClusterState| {
        let drain = cluster.drain.as_ref()?;
        let is_over = drain.over.as_str() <= now;
        let by = format!("{} {}", if is_over { "drained since" } else { "drained by" }, drain.over);
        let left = drain.left.map(|left| format!("{left} % of its demand left"));
        let tone = if is_over { Tone::Good } else { Tone::Warn };
        Some(vec![cluster.name.as_str().into(), Cell::new(tone, by), left.unwrap_or_default().into()])
    };
    table(palette, 2, &["cluster", "", ""], clusters.iter().filter_map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_shows_its_expected_end_and_remaining_demand() {
        let drain = fairway_api_types::state_wire::DrainState {
            since: "2030-01-01T00:00:00Z".to_owned(),
            over: "2030-01-01T00:00:33Z".to_owned(),
            left: Some(12.5),
        };
        let eu1 = ClusterState { name: "eu1".to_owned(), drain: Some(drain), ..ClusterState::default() };
        let clusters = [eu1, ClusterState { name: "us1".to_owned(), ..ClusterState::default() }];
        let text = drain_table(Palette::PLAIN, &clusters, "2030-01-01T00:00:10Z");
        assert!(text.contains("eu1") && text.contains("drained by 2030-01-01T00:00:33Z"), "{text}");
        assert!(text.contains("12.5 % of its demand left") && !text.contains("us1"), "{text}");
        assert!(drain_table(Palette::PLAIN, &clusters, "2030-01-01T00:00:33Z").contains("drained since"));
    }

    #[test]
    fn load_row_shows_age_status_and_problems() {
        let signal = |source: Option<&str>, status: &str| LoadState {
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
            ..signal(Some("gw"), "unused")
        };
        let cluster = ClusterState {
            name: "eu1".to_owned(),
            load: vec![signal(None, "used"), failing],
            warnings: vec!["draining".to_owned()],
            ..ClusterState::default()
        };
        let text = load_table(Palette::PLAIN, &[cluster, ClusterState::default()]);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .skip(1)
            .map(|line| line.split("  ").map(str::trim).filter(|part| !part.is_empty()).collect())
            .collect();
        assert_eq!(lines[0], ["eu1", "72.5 %", "inFlight", "(pushed)", "12 s", "used"]);
        assert_eq!(
            lines[1],
            ["eu1", "72.5 %", "inFlight", "gw", "12 s", "unused", "status 503; 1 of 2 answer; draining"]
        );
        assert_eq!(load_table(Palette::PLAIN, &[ClusterState::default()]), "");
    }
}
