//! One scrape's worth of metrics, written down family by family.

use prometheus::{
    CounterVec, Encoder, GaugeVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder,
    core::Collector,
    proto::{Bucket, Histogram, Metric, MetricFamily, MetricType},
};

use super::MetricsError;

/// The families of one scrape. The first fault sticks and is told at the end: it would be one of this program.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    registry: Registry,
    /// Families that no counter or gauge of the library stands for.
    others: Vec<MetricFamily>,
    fault: Option<MetricsError>,
}

impl Sheet {
    /// One counter without labels.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.counters(name, help, &[], [(&[] as &[&str], value)]);
    }

    /// A family of counters.
    pub(super) fn counters<L: AsRef<[V]>, V: AsRef<str> + std::fmt::Debug>(
        &mut self,
        name: &str,
        help: &str,
        labels: &[&str],
        rows: impl IntoIterator<Item = (L, u64)>,
    ) {
        let family = IntCounterVec::new(Opts::new(name, help), labels);
        self.family(family, |family| {
            for (values, value) in rows {
                family.get_metric_with_label_values(values.as_ref())?.inc_by(value);
            }
            Ok(())
        });
    }

    /// One counter of seconds.
    pub(super) fn seconds(&mut self, name: &str, help: &str, value: f64) {
        let family = CounterVec::new(Opts::new(name, help), &[]);
        self.family(family, |family| {
            family.get_metric_with_label_values(&[] as &[&str])?.inc_by(value);
            Ok(())
        });
    }

    /// One gauge without labels.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.gauges(name, help, &[], [(&[] as &[&str], value)]);
    }

    /// A family of gauges.
    pub(super) fn gauges<L: AsRef<[V]>, V: AsRef<str> + std::fmt::Debug>(
        &mut self,
        name: &str,
        help: &str,
        labels: &[&str],
        rows: impl IntoIterator<Item = (L, f64)>,
    ) {
        let family = GaugeVec::new(Opts::new(name, help), labels);
        self.family(family, |family| {
            for (values, value) in rows {
                family.get_metric_with_label_values(values.as_ref())?.set(value);
            }
            Ok(())
        });
    }

    /// A family of whole numbers that are added up row by row: several rows may speak of the same labels.
    pub(super) fn sums<L: AsRef<[V]>, V: AsRef<str> + std::fmt::Debug>(
        &mut self,
        name: &str,
        help: &str,
        labels: &[&str],
        rows: impl IntoIterator<Item = (L, i64)>,
    ) {
        let family = IntGaugeVec::new(Opts::new(name, help), labels);
        self.family(family, |family| {
            for (values, value) in rows {
                family.get_metric_with_label_values(values.as_ref())?.add(value);
            }
            Ok(())
        });
    }

    /// A histogram that was counted elsewhere: `buckets` hold upper bounds and what fell between them; `count` and `sum`
    /// speak of all, also of what is over the last bound.
    pub(super) fn histogram(&mut self, name: &str, help: &str, buckets: &[(f64, u64)], count: u64, sum: f64) {
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
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(MetricType::HISTOGRAM);
        family.set_metric(vec![metric]);
        self.others.push(family);
    }

    /// Registers any other family.
    pub(super) fn family<C: Collector + Clone + 'static>(
        &mut self,
        family: prometheus::Result<C>,
        fill: impl FnOnce(&C) -> prometheus::Result<()>,
    ) {
        let outcome = family.and_then(|family| {
            fill(&family)?;
            self.registry.register(Box::new(family))
        });
        if let Err(error) = outcome {
            self.fault.get_or_insert_with(|| MetricsError(error.to_string()));
        }
    }

    /// The text of all families (exposition format 0.0.4).
    pub(super) fn into_text(self) -> Result<String, MetricsError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let families = [self.registry.gather(), self.others].concat();
        let mut text = Vec::new();
        TextEncoder::new().encode(&families, &mut text).map_err(|error| MetricsError(error.to_string()))?;
        String::from_utf8(text).map_err(|error| MetricsError(error.to_string()))
    }
}
