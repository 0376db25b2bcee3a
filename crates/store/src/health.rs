//! Health of targets, to and from `health.json`.

use std::collections::HashMap;

use fairway_health::{HistoryEntry, RestoredState, TargetState};
use fairway_model::{Cause, HealthStatus, Monitor, Target, Timestamp, fnv1a_64};

use super::state_wire::{self, FileError, HealthFile, HistoryLine, TargetLine, VERSION};

/// Health of one target before a restart.
#[derive(Clone, Debug)]
pub struct SavedTarget {
    address: String,
    monitor: String,
    digest: String,
    restored: RestoredState,
}

impl SavedTarget {
    /// Returns the saved health of each of these targets that has one.
    ///
    /// A target whose monitor has changed gets the history only: the health status is the result of another check.
    pub fn find(saved: Vec<Self>, targets: &[Target]) -> Vec<(Target, RestoredState)> {
        let by_name = |r: &Self| (r.address.clone(), r.monitor.clone());
        let names: HashMap<_, _> = saved.iter().map(|r| (by_name(r), r.restored.clone())).collect();
        let exact: HashMap<_, _> = saved.into_iter().map(|r| ((r.address, r.digest), r.restored)).collect();
        let find = |target: &Target| -> Option<RestoredState> {
            let address = target.address.to_string();
            let name = (address.clone(), target.label.to_string());
            exact.get(&(address, digest(&target.monitor))).cloned().or_else(|| {
                let known = names.get(&name)?.clone();
                Some(RestoredState { status: HealthStatus::Pending, ..known })
            })
        };
        targets.iter().filter_map(|target| Some((target.clone(), find(target)?))).collect()
    }
}

/// Parses `health.json`. A malformed line is skipped: it costs the history of one target.
pub(super) fn decode(text: &[u8]) -> Result<Vec<SavedTarget>, FileError> {
    let file: HealthFile = state_wire::decode(text)?;
    let written: Timestamp =
        file.written.parse().map_err(|e: fairway_model::TimestampError| FileError::Malformed(e.to_string()))?;
    Ok(file.targets.into_iter().filter_map(|line| saved_target(line, written)).collect())
}

fn saved_target(line: TargetLine, written: Timestamp) -> Option<SavedTarget> {
    let entry = |h: HistoryLine| -> Option<HistoryEntry> {
        let at: Timestamp = h.at.parse().ok()?;
        Some(HistoryEntry { at: at.into(), to: status(&h.to)?, cause: Cause::new(h.cause) })
    };
    let since: Timestamp = line.since.parse().ok()?;
    let restored = RestoredState {
        status: status(&line.status)?,
        since: since.into(),
        history: line.history.into_iter().filter_map(entry).collect(),
        written: written.into(),
    };
    Some(SavedTarget { address: line.address, monitor: line.monitor, digest: line.digest, restored })
}

/// Returns the text of `health.json`. Targets that were never evaluated are omitted.
pub(super) fn encode(states: &[TargetState], now: Timestamp) -> Vec<u8> {
    let time = |at| format!("{:.3}", Timestamp::from(at));
    let history = |h: &HistoryEntry| HistoryLine { at: time(h.at), to: h.to.to_string(), cause: h.cause.to_string() };
    let line = |state: &TargetState| TargetLine {
        address: state.target.address.to_string(),
        monitor: state.target.label.to_string(),
        digest: digest(&state.target.monitor),
        status: state.status.to_string(),
        since: time(state.since),
        history: state.history.iter().map(history).collect(),
    };
    let evaluated = states.iter().filter(|s| s.status != HealthStatus::Pending || !s.history.is_empty());
    state_wire::encode(&HealthFile {
        version: VERSION,
        written: format!("{now:.3}"),
        targets: evaluated.map(line).collect(),
    })
}

fn status(text: &str) -> Option<HealthStatus> {
    [HealthStatus::Pending, HealthStatus::Up, HealthStatus::Down, HealthStatus::Unknown]
        .into_iter()
        .find(|v| v.to_string() == text)
}

/// Returns a digest of a monitor in 16 hexadecimal digits: a hash of its debug text, which has no secrets.
///
/// A later version may print another text. Targets then keep their history and are evaluated again.
fn digest(monitor: &Monitor) -> String {
    format!("{:016x}", fnv1a_64(format!("{monitor:?}").bytes()))
}

#[cfg(test)]
pub(super) mod tests {
    use std::{
        sync::Arc,
        time::{Duration, SystemTime, UNIX_EPOCH},
    };

    use fairway_model::{Check, MonitorName, ProbeAddress};

    use super::*;

    fn target(port: u16) -> Target {
        Target {
            address: ProbeAddress::Address("192.0.2.1".parse().unwrap()),
            monitor: Arc::new(Monitor::new(Check::Tcp { port })),
            label: MonitorName::new("gateway").unwrap(),
        }
    }

    /// A target that went down at second 100.
    pub(crate) fn down(port: u16) -> TargetState {
        let at: SystemTime = UNIX_EPOCH + Duration::from_secs(100);
        TargetState {
            target: target(port),
            status: HealthStatus::Down,
            since: at,
            streak: 3,
            last_cause: None,
            last_duration: None,
            last_probe: None,
            passes: 0,
            failures: 3,
            inconclusive: 0,
            history: vec![HistoryEntry { at, to: HealthStatus::Down, cause: Cause::new("connection \"refused\"\n") }],
        }
    }

    #[test]
    fn encoded_health_is_decoded_unchanged() {
        let text = encode(&[down(443)], Timestamp::from_secs(200));
        let found = SavedTarget::find(decode(&text).unwrap(), &[target(443)]);
        let [(found, restored)] = &found[..] else { panic!("expected one target: {found:?}") };
        assert_eq!(*found, target(443));
        assert_eq!((restored.status, restored.since), (HealthStatus::Down, down(443).since));
        assert_eq!(restored.history, down(443).history);
        assert_eq!(Timestamp::from(restored.written), Timestamp::from_secs(200));
    }

    #[test]
    fn changed_monitor_keeps_history_and_not_status() {
        let text = encode(&[down(443)], Timestamp::from_secs(200));
        let found = SavedTarget::find(decode(&text).unwrap(), &[target(80)]);
        assert_eq!((found[0].1.status, found[0].1.history.len()), (HealthStatus::Pending, 1));
    }

    #[test]
    fn truncated_file_is_rejected() {
        let text = encode(&[down(443), down(80)], Timestamp::from_secs(200));
        for end in 0..text.len() {
            assert!(decode(&text[..end]).is_err(), "cut at {end}");
        }
        assert_eq!(decode(&text).unwrap().len(), 2);
    }
}
