//! One scrape's worth of metrics, family by family, in the text format of Prometheus (exposition format 0.0.4).
//!
//! The library's objects are made for some rows at a time and become text at once: 30,000 targets have 150,000 rows, and objects
//! for all of them would need more memory than all state of the targets.

use std::{collections::HashMap, time::Duration};

use fairway_model::Durations;
use prometheus::{
    Encoder, TextEncoder,
    proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType},
};

/// The text of one scrape.
#[derive(Debug)]
pub struct Sheet {
    /// Help text of each family, by name.
    help: HashMap<&'static str, &'static str>,
    text: Vec<u8>,
}

impl Sheet {
    /// Begins a scrape. `help` has a line for each family: its name, a tab, and the help text.
    pub fn new(help: &'static str) -> Self {
        Self { help: help.lines().filter_map(|line| line.split_once('\t')).collect(), text: Vec::new() }
    }

    /// One counter without labels.
    pub fn counter(&mut self, name: &str, value: u64) {
        self.counters(name, &[], [([""; 0], value)]);
    }

    /// A family of counters. No two rows have the same label values, here as in all families.
    pub fn counters<L: AsRef<[V]>, V: AsRef<str>>(
        &mut self,
        name: &str,
        labels: &[&str],
        rows: impl IntoIterator<Item = (L, u64)>,
    ) {
        let rows = rows.into_iter().map(|(values, value)| (values, value as f64));
        self.family(name, MetricType::COUNTER, labels, rows);
    }

    /// One counter of seconds.
    pub fn seconds(&mut self, name: &str, value: f64) {
        self.family(name, MetricType::COUNTER, &[], [([""; 0], value)]);
    }

    /// One gauge without labels.
    pub fn gauge(&mut self, name: &str, value: f64) {
        self.gauges(name, &[], [([""; 0], value)]);
    }

    /// A family of gauges.
    pub fn gauges<L: AsRef<[V]>, V: AsRef<str>>(
        &mut self,
        name: &str,
        labels: &[&str],
        rows: impl IntoIterator<Item = (L, f64)>,
    ) {
        self.family(name, MetricType::GAUGE, labels, rows);
    }

    /// A family of state sets: for each row one gauge per state, 1 for the state of the row and 0 for the others. The label of
    /// the state is `state`.
    pub fn state_sets<const N: usize>(
        &mut self,
        name: &str,
        labels: [&str; N],
        states: &[&str],
        rows: impl IntoIterator<Item = ([String; N], &'static str)>,
    ) {
        let rows = rows.into_iter().flat_map(|(values, is)| {
            states.iter().map(move |state| {
                let values: Vec<String> = values.iter().cloned().chain([(*state).to_owned()]).collect();
                (values, f64::from(*state == is))
            })
        });
        let labels: Vec<&str> = labels.into_iter().chain(["state"]).collect();
        self.gauges(name, &labels, rows);
    }

    /// A family of histograms of durations; nothing for a row that has counted none.
    pub fn durations<L: AsRef<[V]>, V: AsRef<str>>(
        &mut self,
        name: &str,
        labels: &[&str],
        rows: impl IntoIterator<Item = (L, Durations)>,
    ) {
        let metric = |(values, durations): (L, Durations)| {
            let buckets: Vec<_> = Durations::BOUNDS.iter().map(Duration::as_secs_f64).zip(durations.between).collect();
            let mut metric = histogram(&buckets, durations.count, durations.sum.as_secs_f64());
            metric.set_label(pairs(labels, values.as_ref()));
            metric
        };
        let metrics: Vec<_> = rows.into_iter().filter(|(_, durations)| durations.count > 0).map(metric).collect();
        if !metrics.is_empty() {
            self.encode(name, MetricType::HISTOGRAM, metrics);
        }
    }

    /// A histogram that was counted elsewhere: `buckets` hold upper bounds and the count of each bucket; `count` and `sum`
    /// include values over the last bound.
    pub fn histogram(&mut self, name: &str, buckets: &[(f64, u64)], count: u64, sum: f64) {
        self.encode(name, MetricType::HISTOGRAM, vec![histogram(buckets, count, sum)]);
    }

    /// The text of all families.
    pub fn into_text(self) -> String {
        String::from_utf8(self.text).expect("names, help, labels and numbers are text")
    }

    /// Writes a family; nothing if it has no rows.
    fn family<L: AsRef<[V]>, V: AsRef<str>>(
        &mut self,
        name: &str,
        kind: MetricType,
        labels: &[&str],
        rows: impl IntoIterator<Item = (L, f64)>,
    ) {
        let mut metrics = rows.into_iter().map(|(values, value)| metric(kind, labels, values.as_ref(), value));
        let mut written = None;
        loop {
            let some: Vec<Metric> = metrics.by_ref().take(ROWS).collect();
            if some.is_empty() {
                return;
            }
            let begin = self.text.len();
            self.encode(name, kind, some);
            // The head stands before the first rows only.
            match written {
                None => written = Some(head_length(&self.text[begin..])),
                Some(length) => drop(self.text.drain(begin..begin + length)),
            }
        }
    }

    fn encode(&mut self, name: &str, kind: MetricType, metrics: Vec<Metric>) {
        let help = self.help.get(name).copied().unwrap_or_default();
        debug_assert!(!help.is_empty(), "{name} has no help text");
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(metrics);
        TextEncoder::new().encode(&[family], &mut self.text).expect("a named family with rows, into memory");
    }
}

/// Rows that exist as objects at the same time.
const ROWS: usize = 1_000;

/// Returns the length of the help and type lines in bytes.
fn head_length(text: &[u8]) -> usize {
    text.split_inclusive(|octet| *octet == b'\n').take_while(|line| line.starts_with(b"#")).map(<[u8]>::len).sum()
}

fn histogram(buckets: &[(f64, u64)], count: u64, sum: f64) -> Metric {
    let mut below = 0;
    let bucket = |(bound, between): &(f64, u64)| {
        below += between;
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound);
        bucket.set_cumulative_count(below);
        bucket
    };
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.iter().map(bucket).collect());
    histogram.set_sample_count(count);
    histogram.set_sample_sum(sum);
    let mut metric = Metric::default();
    metric.set_histogram(histogram);
    metric
}

fn pairs<V: AsRef<str>>(labels: &[&str], values: &[V]) -> Vec<LabelPair> {
    let pair = |(label, value): (&&str, &V)| {
        let mut pair = LabelPair::default();
        pair.set_name((*label).to_owned());
        pair.set_value(value.as_ref().to_owned());
        pair
    };
    labels.iter().zip(values).map(pair).collect()
}

fn metric<V: AsRef<str>>(kind: MetricType, labels: &[&str], values: &[V], value: f64) -> Metric {
    let mut metric = Metric::default();
    metric.set_label(pairs(labels, values));
    if kind == MetricType::COUNTER {
        let mut counter = Counter::default();
        counter.set_value(value);
        metric.set_counter(counter);
    } else {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        metric.set_gauge(gauge);
    }
    metric
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "a_total\tOf a.\nb\tOf b.\ntook_seconds\tTime.\n";

    #[test]
    fn a_family_is_its_head_and_a_row_for_each_combination_of_labels() {
        let mut sheet = Sheet::new(HELP);
        sheet.counter("a_total", 7);
        sheet.gauges("b", &["x", "y"], [(["1", "2"], 0.5), (["3", "4"], 2.0)]);
        sheet.gauges("none", &["x"], [([""; 1], 0.0); 0]);
        let expected = "# HELP a_total Of a.\n# TYPE a_total counter\na_total 7\n\
            # HELP b Of b.\n# TYPE b gauge\nb{x=\"1\",y=\"2\"} 0.5\nb{x=\"3\",y=\"4\"} 2\n";
        assert_eq!(sheet.into_text(), expected);
    }

    #[test]
    fn a_long_family_has_one_head_and_all_its_rows() {
        let mut sheet = Sheet::new(HELP);
        let rows = (0..2 * ROWS + 1).map(|row| ([row.to_string()], row as f64));
        sheet.gauges("b", &["x"], rows);
        let text = sheet.into_text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..3], ["# HELP b Of b.", "# TYPE b gauge", "b{x=\"0\"} 0"]);
        assert!(lines.iter().skip(2).enumerate().all(|(row, line)| *line == format!("b{{x=\"{row}\"}} {row}")));
        assert_eq!(lines.len(), 2 + 2 * ROWS + 1);
    }

    #[test]
    fn label_values_are_escaped() {
        let mut sheet = Sheet::new(HELP);
        sheet.gauges("b", &["x"], [(["a\\b\"c\nd"], 1.0)]);
        assert!(sheet.into_text().ends_with("b{x=\"a\\\\b\\\"c\\nd\"} 1\n"));
    }

    #[test]
    fn state_set_has_a_row_per_state_and_one_is_1() {
        let mut sheet = Sheet::new(HELP);
        sheet.state_sets("b", ["x"], &["up", "down"], [(["1".to_owned()], "down")]);
        assert!(sheet.into_text().ends_with("b{x=\"1\",state=\"up\"} 0\nb{x=\"1\",state=\"down\"} 1\n"));
    }

    #[test]
    fn durations_are_a_histogram_per_row_that_counted_any() {
        let mut durations = Durations::default();
        durations.note(Duration::from_millis(40));
        let mut sheet = Sheet::new(HELP);
        sheet.durations("took_seconds", &["x"], [(["1"], durations), (["2"], Durations::default())]);
        let text = sheet.into_text();
        let rows = [
            "took_seconds_bucket{x=\"1\",le=\"0.025\"} 0",
            "took_seconds_bucket{x=\"1\",le=\"0.05\"} 1",
            "took_seconds_sum{x=\"1\"} 0.04",
        ];
        rows.iter().for_each(|row| assert!(text.lines().any(|line| line == *row), "{row} is not in\n{text}"));
        assert!(!text.contains("x=\"2\""), "{text}");
    }

    #[test]
    fn buckets_of_a_histogram_add_up_and_the_last_holds_all() {
        let mut sheet = Sheet::new(HELP);
        sheet.histogram("took_seconds", &[(0.1, 2), (1.0, 3)], 6, 4.5);
        let expected = "# HELP took_seconds Time.\n# TYPE took_seconds histogram\n\
            took_seconds_bucket{le=\"0.1\"} 2\ntook_seconds_bucket{le=\"1\"} 5\ntook_seconds_bucket{le=\"+Inf\"} 6\n\
            took_seconds_sum 4.5\ntook_seconds_count 6\n";
        assert_eq!(sheet.into_text(), expected);
    }
}
