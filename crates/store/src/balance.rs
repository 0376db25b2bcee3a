//! State of load control, to and from `balance.json`; decisions of the leader, and the evidence that it gets.

use std::{collections::BTreeMap, fmt, str::FromStr};

use fairway_model::{Backend, ClusterCost, Demand, Shares, SlotTable, Timestamp};
use fairway_steering::{
    balancer::{ClassEvidence, DemandEvidence, RiskLevel, Saved, SavedClass},
    controller::SlotState,
};

use super::state_wire::{self, BalanceFile, ClassLine, DecisionNote, EvidenceLine, EvidenceNote, FileError, VERSION};

/// State of load control before a restart.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedBalance {
    /// Time of writing.
    pub written: Timestamp,
    /// Tables, and what was known of their slots.
    pub state: Saved,
}

/// Parses `balance.json`. One malformed line makes the file unreadable: a part of the slots would send clients to clusters without capacity
/// for them.
pub(super) fn decode(text: &[u8]) -> Result<SavedBalance, FileError> {
    let file: BalanceFile = state_wire::decode(text)?;
    check_count("location classes", file.classes.len(), CLASSES_MAX)?;
    let written = file.written.parse().map_err(malformed)?;
    let class = |line: &ClassLine| {
        let [demands, variances, weights] = [&line.demands, &line.variances, &line.weights].map(|text| numbers(text));
        let known = demands?.into_iter().zip(variances?).zip(weights?);
        let slots: Vec<SlotState> =
            known.map(|((demand, variance), weight)| SlotState { demand, variance, weight }).collect();
        if slots.len() != Demand::SLOTS {
            return Err(FileError::Malformed(format!("{} slots; a class has {}", slots.len(), Demand::SLOTS)));
        }
        Ok(SavedClass { table: table(line)?, slots })
    };
    Ok(SavedBalance { written, state: Saved { classes: file.classes.iter().map(class).collect::<Result<_, _>>()? } })
}

/// Returns the text of `balance.json`.
pub(super) fn encode(saved: &SavedBalance) -> Vec<u8> {
    let class = |class: &SavedClass| {
        let text = |value: fn(&SlotState) -> f32| joined(class.slots.iter().map(value));
        ClassLine {
            demands: text(|slot| slot.demand),
            variances: text(|slot| slot.variance),
            weights: text(|slot| slot.weight),
            ..class_line(&class.table)
        }
    };
    state_wire::encode(&BalanceFile {
        version: VERSION,
        written: format!("{:.3}", saved.written),
        classes: saved.state.classes.iter().map(class).collect(),
    })
}

/// Parses the decision of another server.
pub(super) fn decode_decision(text: &[u8]) -> Result<(Shares, RiskLevel), String> {
    parse_decision(text).map_err(|error| error.to_string())
}

fn parse_decision(text: &[u8]) -> Result<(Shares, RiskLevel), FileError> {
    let note: DecisionNote = state_wire::decode(text)?;
    check_count("location classes", note.classes.len(), CLASSES_MAX)?;
    check_count("clusters", note.parts.len(), CLUSTERS_MAX)?;
    let level = RISK_LEVELS.into_iter().find(|(_, word)| *word == note.risk_level);
    let (level, _) =
        level.ok_or_else(|| FileError::Malformed(format!("unknown risk level {:.20}", note.risk_level)))?;
    let tables = note.classes.iter().map(table).collect::<Result<_, _>>()?;
    let part = |(backend, part): (String, u16)| Ok((backend.parse().map_err(malformed)?, part));
    let parts = note.parts.into_iter().map(part).collect::<Result<BTreeMap<_, _>, _>>()?;
    Ok((Shares { epoch: note.epoch, tables, parts }, level))
}

/// Returns the text of a decision of this server, for others.
pub fn encode_decision(shares: &Shares, level: RiskLevel) -> Vec<u8> {
    let level = RISK_LEVELS.into_iter().find(|(known, _)| *known == level);
    state_wire::encode(&DecisionNote {
        version: VERSION,
        epoch: shares.epoch,
        risk_level: level.map_or("", |(_, word)| word).to_owned(),
        classes: shares.tables.iter().map(class_line).collect(),
        parts: shares.parts.iter().map(|(cluster, part)| (cluster.to_string(), *part)).collect(),
    })
}

/// Parses the evidence of another server.
pub(super) fn decode_evidence(text: &[u8]) -> Result<DemandEvidence, FileError> {
    let note: EvidenceNote = state_wire::decode(text)?;
    check_count("location classes", note.classes.len(), CLASSES_MAX)?;
    let class = |line: &EvidenceLine| {
        let weights: Vec<u32> = numbers(&line.weights)?;
        check_count("slots", weights.len(), Demand::SLOTS)?;
        let weights = weights.iter().map(|thousandths| *thousandths as f32 / 1_000.0).collect();
        Ok(ClassEvidence { costs: costs(&line.clusters)?, weights })
    };
    Ok(DemandEvidence { networks: note.networks, classes: note.classes.iter().map(class).collect::<Result<_, _>>()? })
}

/// Returns the text of the evidence of this server, for the leader.
pub fn encode_evidence(seen: &DemandEvidence) -> Vec<u8> {
    let line = |class: &ClassEvidence| EvidenceLine {
        clusters: joined(class.costs.iter().map(cost_text)),
        weights: joined(class.weights.iter().map(|weight| (weight * 1_000.0).round() as u32)),
    };
    let classes = seen.classes.iter().map(line).collect();
    state_wire::encode(&EvidenceNote { version: VERSION, networks: seen.networks, classes })
}

const RISK_LEVELS: [(RiskLevel, &str); 3] =
    [(RiskLevel::Calm, "calm"), (RiskLevel::Ordinary, "ordinary"), (RiskLevel::Short, "short")];

fn class_line(table: &SlotTable) -> ClassLine {
    let slot = |slot: &u16| if *slot == SlotTable::NONE { "-".to_owned() } else { slot.to_string() };
    ClassLine {
        clusters: joined(table.costs.iter().map(cost_text)),
        slots: joined(table.slots.iter().map(slot)),
        demands: String::new(),
        variances: String::new(),
        weights: String::new(),
    }
}

fn cost_text((cluster, of): &(Backend, ClusterCost)) -> String {
    format!("{cluster}:{}:{}", of.cost, of.weight)
}

fn costs(clusters: &str) -> Result<Vec<(Backend, ClusterCost)>, FileError> {
    let cost = |text: &str| {
        let [cluster, cost, weight] = text.split(':').collect::<Vec<_>>()[..] else {
            return Err(malformed("a cluster without cost and weight"));
        };
        let [cost, weight] = [cost, weight].map(|number| number.parse().map_err(malformed));
        Ok((cluster.parse().map_err(malformed)?, ClusterCost { cost: cost?, weight: weight? }))
    };
    let costs: Vec<_> = clusters.split_whitespace().map(cost).collect::<Result<_, FileError>>()?;
    if !costs.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(malformed("clusters are not sorted by name"));
    }
    Ok(costs)
}

fn table(line: &ClassLine) -> Result<SlotTable, FileError> {
    let costs = costs(&line.clusters)?;
    let slot = |text: &str| match text {
        "-" => Ok(SlotTable::NONE),
        text => text.parse().map_err(malformed),
    };
    let slots: Vec<u16> = line.slots.split_whitespace().map(slot).collect::<Result<_, _>>()?;
    let is_known = |slot: &u16| *slot == SlotTable::NONE || usize::from(*slot) < costs.len();
    if slots.len() != Demand::SLOTS || !slots.iter().all(is_known) {
        return Err(malformed(format!("not {} slots of known clusters", Demand::SLOTS)));
    }
    Ok(SlotTable { costs, slots })
}

fn joined(values: impl Iterator<Item: fmt::Display>) -> String {
    let texts: Vec<String> = values.map(|value| value.to_string()).collect();
    texts.join(" ")
}

fn numbers<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<Vec<T>, FileError> {
    text.split_whitespace().map(|text| text.parse().map_err(malformed)).collect()
}

fn check_count(what: &str, count: usize, max: usize) -> Result<(), FileError> {
    if count <= max { Ok(()) } else { Err(FileError::Malformed(format!("{count} {what}; the limit is {max}"))) }
}

fn malformed(error: impl fmt::Display) -> FileError {
    FileError::Malformed(error.to_string())
}

/// Maximum number of clusters of a decision.
const CLUSTERS_MAX: usize = 65_535;
/// Maximum number of location classes, of all groups.
const CLASSES_MAX: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    fn two_costs() -> Vec<(Backend, ClusterCost)> {
        let cost = |name: &str, cost, weight| (name.parse().unwrap(), ClusterCost { cost, weight });
        vec![cost("shop@eu1", 0, 250), cost("us1", 1_500, 750)]
    }

    fn saved() -> SavedBalance {
        let slots = (0..Demand::SLOTS as u16).map(|slot| if slot == 9 { SlotTable::NONE } else { slot % 2 }).collect();
        let table = SlotTable { costs: two_costs(), slots };
        let mut known = vec![SlotState::default(); Demand::SLOTS];
        known[3] = SlotState { demand: 62.5, variance: 1e-3, weight: 4.25 };
        let classes = vec![SavedClass { table, slots: known }];
        SavedBalance { written: Timestamp::from_secs(200), state: Saved { classes } }
    }

    #[test]
    fn encoded_state_is_decoded_unchanged() {
        assert_eq!(decode(&encode(&saved())).unwrap(), saved());
    }

    #[test]
    fn decision_is_decoded_and_malformed_one_is_rejected() {
        let tables = saved().state.classes.into_iter().map(|class| class.table).collect();
        let parts = [("eu1".parse().unwrap(), 40_000), ("shop@us1".parse().unwrap(), 25_535)];
        let shares = Shares { epoch: 12, tables, parts: parts.into() };
        for (level, word) in RISK_LEVELS {
            let text = encode_decision(&shares, level);
            assert_eq!(decode_decision(&text).unwrap(), (shares.clone(), level));
            assert!((0..text.len()).all(|end| decode_decision(&text[..end]).is_err()));
            let odd = String::from_utf8(text).unwrap().replace(word, "odd");
            assert_eq!(decode_decision(odd.as_bytes()).unwrap_err(), "malformed: unknown risk level odd");
        }
    }

    #[test]
    fn evidence_is_decoded_and_malformed_one_is_rejected() {
        let mut weights = vec![0.0; Demand::SLOTS];
        (weights[3], weights[9]) = (1.0, 0.123);
        let seen = DemandEvidence { networks: 2, classes: vec![ClassEvidence { costs: two_costs(), weights }] };
        let text = encode_evidence(&seen);
        assert_eq!(decode_evidence(&text).unwrap(), seen);
        assert!((0..text.len()).all(|end| decode_evidence(&text[..end]).is_err()));
        let text = String::from_utf8(text).unwrap();
        for (sound, odd) in
            [("us1:1500", "us1"), (":750", ""), ("eu1:0", "zz9:0"), (" 123 ", " -1 "), (" 123 ", " 1 2 ")]
        {
            assert!(text.contains(sound), "{text}");
            assert!(decode_evidence(text.replacen(sound, odd, 1).as_bytes()).is_err(), "{odd}");
        }
    }

    #[test]
    fn truncated_file_is_rejected() {
        let text = encode(&saved());
        assert!((0..text.len()).all(|end| decode(&text[..end]).is_err()));
    }

    #[test]
    fn malformed_values_are_rejected() {
        let text = String::from_utf8(encode(&saved())).unwrap();
        let odd = [
            ("eu1:0", "eu1"),
            ("eu1:0", "zz9:0"),
            ("us1:1500", "us1:x"),
            ("1500:750", "1500"),
            ("1500:750", "1500:x"),
            ("0 1 0", "0 2 0"),
            ("0 1 0", "0 1"),
            ("62.5", "x"),
        ];
        for (sound, odd) in odd {
            assert!(text.contains(sound), "{text}");
            assert!(decode(text.replacen(sound, odd, 1).as_bytes()).is_err(), "{odd}");
        }
    }
}
