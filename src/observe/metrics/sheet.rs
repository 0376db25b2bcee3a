//! One scrape's worth of metrics, family by family, in the text format of Prometheus (exposition format 0.0.4).
//!
//! Rows become text as they come: 30,000 targets have 150,000 rows, and an object for each would take more memory than
//! everything that is known of the targets.

use std::fmt::{self, Display, Write as _};

/// The text of one scrape.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    text: String,
}

impl Sheet {
    /// One counter without labels.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.counters(name, help, &[], [([""; 0], value)]);
    }

    /// A family of counters. No two rows have the same label values, here as in all families.
    pub(super) fn counters<L: AsRef<[V]>, V: AsRef<str>>(
        &mut self,
        name: &str,
        help: &str,
        labels: &[&str],
        rows: impl IntoIterator<Item = (L, u64)>,
    ) {
        self.family(Head { name, help, kind: "counter" }, labels, rows);
    }

    /// One counter of seconds.
    pub(super) fn seconds(&mut self, name: &str, help: &str, value: f64) {
        self.family(Head { name, help, kind: "counter" }, &[], [([""; 0], value)]);
    }

    /// One gauge without labels.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.gauges(name, help, &[], [([""; 0], value)]);
    }

    /// A family of gauges.
    pub(super) fn gauges<L: AsRef<[V]>, V: AsRef<str>>(
        &mut self,
        name: &str,
        help: &str,
        labels: &[&str],
        rows: impl IntoIterator<Item = (L, f64)>,
    ) {
        self.family(Head { name, help, kind: "gauge" }, labels, rows);
    }

    /// A histogram that was counted elsewhere: `buckets` hold upper bounds and what fell between them; `count` and `sum`
    /// speak of all, also of what is over the last bound.
    pub(super) fn histogram(&mut self, name: &str, help: &str, buckets: &[(f64, u64)], count: u64, sum: f64) {
        self.push(format_args!("{}", Head { name, help, kind: "histogram" }));
        let mut below = 0;
        for (bound, between) in buckets {
            below += between;
            self.push(format_args!("{name}_bucket{{le=\"{bound}\"}} {below}\n"));
        }
        self.push(format_args!("{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}\n"));
    }

    /// The text of all families.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Writes a family; nothing at all if it has no rows.
    fn family<L: AsRef<[V]>, V: AsRef<str>>(
        &mut self,
        head: Head<'_>,
        labels: &[&str],
        rows: impl IntoIterator<Item = (L, impl Display)>,
    ) {
        for (place, (values, value)) in rows.into_iter().enumerate() {
            if place == 0 {
                self.push(format_args!("{head}"));
            }
            self.text.push_str(head.name);
            let pairs = labels.iter().zip(values.as_ref());
            for (place, (label, value)) in pairs.enumerate() {
                let before = if place == 0 { '{' } else { ',' };
                self.push(format_args!("{before}{label}=\"{}\"", Escaped(value.as_ref())));
            }
            self.text.push_str(if labels.is_empty() { "" } else { "}" });
            self.push(format_args!(" {value}\n"));
        }
    }

    fn push(&mut self, text: fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("a String takes every write");
    }
}

/// What a family begins with. Help texts are literals of one line without backslash, which need no escape.
struct Head<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'static str,
}

impl Display for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, help, kind } = self;
        write!(f, "# HELP {name} {help}\n# TYPE {name} {kind}\n")
    }
}

/// A label value as it stands between quotes.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['\\', '"', '\n']) {
            let (plain, special) = rest.split_at(at);
            let escape = match special.as_bytes()[0] {
                b'\n' => "\\n",
                b'"' => "\\\"",
                _ => "\\\\",
            };
            write!(f, "{plain}{escape}")?;
            rest = &special[1..];
        }
        f.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_its_head_and_a_row_for_each_combination_of_labels() {
        let mut sheet = Sheet::default();
        sheet.counter("a_total", "Of a.", 7);
        sheet.gauges("b", "Of b.", &["x", "y"], [(["1", "2"], 0.5), (["3", "4"], 2.0)]);
        sheet.gauges("none", "Nothing.", &["x"], [([""; 1], 0.0); 0]);
        let expected = "# HELP a_total Of a.\n# TYPE a_total counter\na_total 7\n\
            # HELP b Of b.\n# TYPE b gauge\nb{x=\"1\",y=\"2\"} 0.5\nb{x=\"3\",y=\"4\"} 2\n";
        assert_eq!(sheet.into_text(), expected);
    }

    #[test]
    fn label_values_are_escaped() {
        let mut sheet = Sheet::default();
        sheet.gauges("b", "Of b.", &["x"], [(["a\\b\"c\nd"], 1.0)]);
        assert!(sheet.into_text().ends_with("b{x=\"a\\\\b\\\"c\\nd\"} 1\n"));
    }

    #[test]
    fn buckets_of_a_histogram_add_up_and_the_last_holds_all() {
        let mut sheet = Sheet::default();
        sheet.histogram("took_seconds", "Time.", &[(0.1, 2), (1.0, 3)], 6, 4.5);
        let expected = "# HELP took_seconds Time.\n# TYPE took_seconds histogram\n\
            took_seconds_bucket{le=\"0.1\"} 2\ntook_seconds_bucket{le=\"1\"} 5\ntook_seconds_bucket{le=\"+Inf\"} 6\n\
            took_seconds_sum 4.5\ntook_seconds_count 6\n";
        assert_eq!(sheet.into_text(), expected);
    }
}
