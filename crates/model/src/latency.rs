//! Measured round-trip times from client networks to clusters.

use std::{fmt, net::IpAddr};

use crate::{ClusterName, LatencyTableName, Network, Partition};

/// Measured round-trip times from client networks to clusters.
///
/// A client uses the row of the most specific network that contains it. A cell that this row lacks is unknown, even if a
/// wider network has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyTable {
    name: LatencyTableName,
    clusters: Vec<ClusterName>,
    /// Maps addresses to row numbers.
    partition: Partition,
    /// One latency per cluster, row after row; all of row 0 are unknown.
    latencies: Vec<Option<Latency>>,
}

/// A round-trip time in microseconds, up to some 71 minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Latency(pub u32);

impl fmt::Display for Latency {
    /// Writes milliseconds, with tenths if there are any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (u64::from(self.0) + 50) / 100;
        match tenths % 10 {
            0 => write!(f, "{} ms", tenths / 10),
            rest => write!(f, "{}.{rest} ms", tenths / 10),
        }
    }
}

/// A row of a table: a network and the latencies from it to each of the table's clusters.
pub type LatencyRow = (Network, Vec<Option<Latency>>);

impl LatencyTable {
    /// Largest number of rows.
    pub const ROWS_MAX: usize = 1_000_000;
    /// Largest number of cells (rows × clusters): 16,777,216 of 8 bytes each are 128 MiB.
    pub const CELLS_MAX: usize = 1 << 24;
    /// Largest number of clusters.
    pub const CLUSTERS_MAX: usize = 1_000;

    /// Returns a table of these clusters. A cell that a row lacks is unknown. If two rows have
    /// the same network, the later one is used.
    pub fn new(name: LatencyTableName, clusters: Vec<ClusterName>, rows: Vec<LatencyRow>) -> Self {
        let networks = (1..).zip(&rows).map(|(number, (network, _))| (*network, number));
        let partition = Partition::of_networks(networks, 0);
        let mut latencies = vec![None; clusters.len()];
        for (_, row) in rows {
            latencies.extend(row.into_iter().chain(std::iter::repeat(None)).take(clusters.len()));
        }
        Self { name, clusters, partition, latencies }
    }

    /// Returns the name.
    pub fn name(&self) -> &LatencyTableName {
        &self.name
    }

    /// Returns the clusters, in the order of the columns.
    pub fn clusters(&self) -> &[ClusterName] {
        &self.clusters
    }

    /// Returns the number of rows; 0 without clusters.
    pub fn rows(&self) -> usize {
        self.latencies.len().checked_div(self.clusters.len()).map_or(0, |rows| rows - 1)
    }

    /// Returns the partition of addresses to row numbers.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Returns the cells of a row; empty if the row does not exist.
    pub fn row(&self, number: u32) -> &[Option<Latency>] {
        let first = number as usize * self.clusters.len();
        self.latencies.get(first..first + self.clusters.len()).unwrap_or_default()
    }

    /// Returns the latencies for an address, with the largest block of addresses that all have them.
    pub fn entry(&self, address: IpAddr) -> (Network, &[Option<Latency>]) {
        let found = self.partition.find(address);
        (Network::of(address, found.length), self.row(found.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_of_the_most_specific_network_is_used_whole() {
        let clusters = ["eu1", "us1"].map(|name| ClusterName::new(name).unwrap()).to_vec();
        let row = |network: &str, cells: &[u32]| {
            (network.parse().unwrap(), cells.iter().map(|cell| Some(Latency(*cell))).collect())
        };
        let rows = vec![row("192.0.2.0/24", &[10_000, 90_000]), row("192.0.2.128/25", &[50_000])];
        let table = LatencyTable::new(LatencyTableName::new("rtt").unwrap(), clusters, rows);
        let entry = |address: &str| table.entry(address.parse().unwrap());
        assert_eq!(entry("192.0.2.1").1, [Some(Latency(10_000)), Some(Latency(90_000))]);
        assert_eq!(entry("192.0.2.129"), ("192.0.2.128/25".parse().unwrap(), &[Some(Latency(50_000)), None][..]));
        assert_eq!(entry("198.51.100.1").1, [None, None]);
        assert_eq!([Latency(12_000), Latency(450)].map(|latency| latency.to_string()), ["12 ms", "0.5 ms"]);
    }
}
