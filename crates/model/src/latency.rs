//! Measured latencies: how long a packet takes from networks of clients to clusters and back.

use std::{fmt, net::IpAddr};

use crate::{ClusterName, LatencyTableName, Network, Partition};

/// Measured round-trip times from client networks to clusters.
///
/// The row of the most specific network around a client counts as a whole: what it leaves out is unknown, whatever a wider
/// network says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyTable {
    name: LatencyTableName,
    clusters: Vec<ClusterName>,
    /// To the numbers of rows.
    partition: Partition,
    /// A latency a cluster, row after row; the first row knows nothing.
    latencies: Vec<Option<Latency>>,
}

/// A round-trip time in microseconds, up to some 71 minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Latency(pub u32);

impl fmt::Display for Latency {
    /// In milliseconds, with tenths where there are any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (u64::from(self.0) + 50) / 100;
        match tenths % 10 {
            0 => write!(f, "{} ms", tenths / 10),
            rest => write!(f, "{}.{rest} ms", tenths / 10),
        }
    }
}

/// A row of a table: a network, and what was measured from it to each of the table's clusters.
pub type LatencyRow = (Network, Vec<Option<Latency>>);

impl LatencyTable {
    /// Most rows of a table.
    pub const ROWS_MAX: usize = 1_000_000;
    /// Most cells of a table, its rows times its clusters: 128 MiB.
    pub const CELLS_MAX: usize = 1 << 24;
    /// Most clusters a table may speak of.
    pub const CLUSTERS_MAX: usize = 1_000;

    /// A table of these clusters. A cell that a row lacks is unknown; of two rows of one network the later one counts.
    pub fn new(name: LatencyTableName, clusters: Vec<ClusterName>, rows: Vec<LatencyRow>) -> Self {
        let networks = (1..).zip(&rows).map(|(number, (network, _))| (*network, number));
        let partition = Partition::of_networks(networks, 0);
        let mut latencies = vec![None; clusters.len()];
        for (_, row) in rows {
            latencies.extend(row.into_iter().chain(std::iter::repeat(None)).take(clusters.len()));
        }
        Self { name, clusters, partition, latencies }
    }

    /// Its name.
    pub fn name(&self) -> &LatencyTableName {
        &self.name
    }

    /// The clusters it speaks of, in the order of its columns.
    pub fn clusters(&self) -> &[ClusterName] {
        &self.clusters
    }

    /// How many rows it was made of; none are counted where it has no cluster.
    pub fn rows(&self) -> usize {
        self.latencies.len().checked_div(self.clusters.len()).map_or(0, |rows| rows - 1)
    }

    /// To the numbers of its rows.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// The cells of a row, by its number; none known for a row that there is not.
    pub fn row(&self, number: u32) -> &[Option<Latency>] {
        let first = number as usize * self.clusters.len();
        self.latencies.get(first..first + self.clusters.len()).unwrap_or_default()
    }

    /// What was measured from around an address, and the largest block of which the table says the same.
    pub fn entry(&self, address: IpAddr) -> (Network, &[Option<Latency>]) {
        let found = self.partition.find(address);
        (Network::of(address, found.length), self.row(found.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_the_most_specific_network_counts_as_a_whole() {
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
