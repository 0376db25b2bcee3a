//! Latency tables as text: a line of cluster names, then one line per network.
//!
//! ```text
//! network,eu1,us1 203.0.113.0/24,12.5,98 2001:db8::/32,,87
//! ```
//! Values are milliseconds with up to three decimals; an empty cell is unknown. Empty lines and lines that begin with
//! `#` are skipped.

use std::{collections::HashSet, sync::Arc};

use fairway_model::{
    ClusterName, Diagnostic, FileLocation, Latency, LatencyRow, LatencyTable, LatencyTableName, Network,
};

use crate::{DIAGNOSTICS_MAX, tree::quoted, values::fixed_point};

/// Parses a table, or returns all its errors.
pub(super) fn read(name: &LatencyTableName, file: &str, text: &str) -> Result<LatencyTable, Vec<Diagnostic>> {
    let file: Arc<str> = file.into();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let mut parser = TableParser { file, diagnostics: Vec::new(), seen: HashSet::new() };
    let mut lines = lines.peekable();
    let clusters = lines.next().map_or_else(Vec::new, |(number, line)| parser.head(number, line));
    let mut rows = Vec::new();
    for (number, line) in lines {
        rows.extend(parser.row(number, line, clusters.len()));
        if parser.diagnostics.len() >= DIAGNOSTICS_MAX || !parser.has_room(number, rows.len(), clusters.len()) {
            break;
        }
    }
    if rows.is_empty() && parser.diagnostics.is_empty() {
        parser.report(
            0,
            "the table has no network",
            "write a first line like \"network,eu1,us1\", then one line per network",
        );
    }
    if !text.is_empty() && !text.ends_with('\n') {
        let last = text.lines().count().try_into().unwrap_or(u32::MAX);
        parser.report(
            last,
            "the table does not end with a line break, so it may be truncated",
            "complete the last line",
        );
    }
    if parser.diagnostics.is_empty() {
        Ok(LatencyTable::new(name.clone(), clusters, rows))
    } else {
        Err(parser.diagnostics)
    }
}

struct TableParser {
    file: Arc<str>,
    diagnostics: Vec<Diagnostic>,
    seen: HashSet<Network>,
}

impl TableParser {
    fn report(&mut self, line: u32, what: impl Into<String>, hint: &str) {
        let location = FileLocation { file: Arc::clone(&self.file), line, column: 0 };
        self.diagnostics.push(Diagnostic::error(location, what, hint));
    }

    /// Returns the clusters of the first line.
    fn head(&mut self, number: u32, line: &str) -> Vec<ClusterName> {
        let mut cells = line.split(',').map(str::trim);
        if cells.next() != Some("network") {
            self.report(number, "the first line does not begin with \"network\"", "write it like network,eu1,us1");
            return Vec::new();
        }
        let mut clusters: Vec<ClusterName> = Vec::new();
        for cell in cells {
            match ClusterName::new(cell) {
                Ok(cluster) if clusters.contains(&cluster) => {
                    self.report(number, format!("cluster {cluster} is repeated"), "remove one of its columns");
                }
                Ok(cluster) => clusters.push(cluster),
                Err(error) => self.report(number, format!("{} is not a cluster name: {error}", quoted(cell)), ""),
            }
        }
        if clusters.is_empty() && self.diagnostics.is_empty() {
            self.report(number, "the first line names no cluster", "write it like network,eu1,us1");
        }
        if clusters.len() > LatencyTable::CLUSTERS_MAX {
            let what = format!("{} clusters; the limit is {}", clusters.len(), LatencyTable::CLUSTERS_MAX);
            self.report(number, what, "split the table");
        }
        clusters
    }

    fn row(&mut self, number: u32, line: &str, clusters: usize) -> Option<LatencyRow> {
        let mut cells = line.split(',').map(str::trim);
        let network = cells.next().unwrap_or_default();
        let network = match network.parse::<Network>() {
            Ok(network) => network,
            Err(error) => {
                self.report(number, error.to_string(), "");
                return None;
            }
        };
        if !self.seen.insert(network) {
            self.report(number, format!("{network} is repeated"), "remove one of its lines");
        }
        let latencies: Vec<_> = cells.map(|cell| self.cell(number, cell)).collect();
        if latencies.len() != clusters {
            let what = format!("{network} has {} latencies; the first line names {clusters} clusters", latencies.len());
            self.report(number, what, "write one cell per cluster, empty if unknown");
        }
        Some((network, latencies))
    }

    fn cell(&mut self, number: u32, cell: &str) -> Option<Latency> {
        if cell.is_empty() {
            return None;
        }
        let latency = fixed_point(cell, 3).filter(|micros| *micros <= LATENCY_MAX);
        if latency.is_none() {
            let what = format!("{} is not a latency from 0 to 60000 milliseconds", quoted(cell));
            self.report(number, what, "write milliseconds like 12 or 12.5, or leave the cell empty");
        }
        latency.map(Latency)
    }

    fn has_room(&mut self, number: u32, rows: usize, clusters: usize) -> bool {
        let fits = rows <= LatencyTable::ROWS_MAX && rows.saturating_mul(clusters) <= LatencyTable::CELLS_MAX;
        if !fits {
            let (rows, cells) = (LatencyTable::ROWS_MAX, LatencyTable::CELLS_MAX);
            self.report(number, format!("more than {rows} networks or {cells} cells"), "merge neighbouring networks");
        }
        fits
    }
}

/// A minute, in microseconds: a slower result is a measurement error.
const LATENCY_MAX: u32 = 60_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<LatencyTable, Vec<String>> {
        let name = LatencyTableName::new("rtt").unwrap();
        read(&name, "rtt.csv", text).map_err(|diagnostics| diagnostics.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn table_has_latencies_by_network_and_empty_cell_is_unknown() {
        let text = "# measured on Monday\nnetwork, eu1, us1\n\n192.0.2.0/24, 12.5, 98\n2001:db8::/32,,0.25\n";
        let table = table(text).unwrap();
        let row = |address: &str| table.entry(address.parse().unwrap()).1.to_vec();
        assert_eq!(row("192.0.2.7"), [Some(Latency(12_500)), Some(Latency(98_000))]);
        assert_eq!(row("2001:db8::7"), [None, Some(Latency(250))]);
        assert_eq!(table.clusters()[1].as_str(), "us1");
    }

    #[test]
    fn every_invalid_line_is_reported() {
        let text =
            "network,eu1,us1,eu1\n192.0.2.0/24,1\n192.0.2.1/24,1,2\n198.51.100.0/24,fast,60001\n192.0.2.0/24,1,2\nx";
        let expected = [
            "rtt.csv:1: cluster eu1 is repeated; remove one of its columns",
            "rtt.csv:2: 192.0.2.0/24 has 1 latencies; the first line names 2 clusters; write one cell per cluster, empty if unknown",
            "rtt.csv:3: 192.0.2.1/24 has bits set past its length; the block is 192.0.2.0/24",
            "rtt.csv:4: \"fast\" is not a latency from 0 to 60000 milliseconds; write milliseconds like 12 or 12.5, or leave the cell empty",
            "rtt.csv:4: \"60001\" is not a latency from 0 to 60000 milliseconds; write milliseconds like 12 or 12.5, or leave the cell empty",
            "rtt.csv:5: 192.0.2.0/24 is repeated; remove one of its lines",
            "rtt.csv:6: \"x\" is not an address block; write it like 10.0.0.0/8 or 2001:db8::/32",
            "rtt.csv:6: the table does not end with a line break, so it may be truncated; complete the last line",
        ];
        assert_eq!(table(text).unwrap_err(), expected);
    }

    #[test]
    fn table_without_network_or_cluster_is_rejected() {
        for (text, diagnostic) in [
            (
                "",
                "rtt.csv: the table has no network; write a first line like \"network,eu1,us1\", then one line per network",
            ),
            ("network\n", "rtt.csv:1: the first line names no cluster; write it like network,eu1,us1"),
            (
                "10.0.0.0/8,1\n",
                "rtt.csv:1: the first line does not begin with \"network\"; write it like network,eu1,us1",
            ),
        ] {
            assert_eq!(table(text).unwrap_err(), [diagnostic]);
        }
    }

    #[test]
    fn table_over_a_limit_is_rejected() {
        let head: Vec<String> = (0..1_001).map(|number| format!("c{number}")).collect();
        let diagnostic =
            &table(&format!("network,{}\n10.0.0.0/8{}\n", head.join(","), ",1".repeat(1_001))).unwrap_err()[0];
        assert_eq!(diagnostic, "rtt.csv:1: 1001 clusters; the limit is 1000; split the table");
        let mut lines = TableParser { file: "f".into(), diagnostics: Vec::new(), seen: HashSet::new() };
        assert!(lines.has_room(1, LatencyTable::ROWS_MAX, 16) && !lines.has_room(1, LatencyTable::ROWS_MAX + 1, 1));
        assert!(!lines.has_room(1, 20_000, 1_000));
        assert_eq!(lines.diagnostics.len(), 2);
    }

    #[test]
    fn milliseconds_with_more_than_three_decimals_are_rejected() {
        assert_eq!(
            ["0", "12", "12.5", "0.001"].map(|text| fixed_point(text, 3)),
            [Some(0), Some(12_000), Some(12_500), Some(1)]
        );
        for wrong in ["-1", "1.", ".5", "1.2345", "1e3", "", "+1", "99999999999"] {
            assert_eq!(fixed_point(wrong, 3), None, "{wrong}");
        }
    }
}
