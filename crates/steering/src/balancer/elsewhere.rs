//! Evidence of demand of several servers, of which one decides.

use fairway_model::{Backend, ClusterCost, Demand, SlotTable};

use super::{Balancer, Controlled};

/// Evidence of demand that a server has from its own queries.
#[derive(Clone, Debug, PartialEq)]
pub struct DemandEvidence {
    /// Number of client networks.
    pub networks: usize,
    /// By location class.
    pub classes: Vec<ClassEvidence>,
}

/// Evidence of the demand of a location class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassEvidence {
    /// Clusters with their costs, sorted by name.
    pub costs: Vec<(Backend, ClusterCost)>,
    /// By slot, the number of client networks, each as far as the weight of its source allows.
    pub weights: Vec<f32>,
}

impl Balancer {
    /// Returns the number of client networks that other servers have evidence of.
    pub fn networks_elsewhere(&self) -> usize {
        self.networks_elsewhere
    }

    /// Returns the evidence of its own queries, for a server that decides for several.
    pub fn demand_evidence(&self) -> DemandEvidence {
        let class = |group: &Controlled, class: usize, table: SlotTable| ClassEvidence {
            costs: table.costs,
            weights: (0..Demand::SLOTS).map(|slot| group.controller.state(class, slot).weight).collect(),
        };
        let classes = self
            .groups
            .iter()
            .flat_map(|group| group.tables().enumerate().map(move |(number, table)| class(group, number, table)));
        DemandEvidence { networks: self.evidence.networks(), classes: classes.collect() }
    }

    /// Takes over the evidence of other servers, in place of what they had before.
    pub fn set_elsewhere(&mut self, others: &[DemandEvidence]) {
        self.networks_elsewhere = others.iter().map(|seen| seen.networks).sum();
        self.groups.iter_mut().for_each(|group| group.set_elsewhere(others));
    }
}

impl Controlled {
    /// Adds up the evidence of other servers. That of a class goes to the most similar own one.
    fn set_elsewhere(&mut self, others: &[DemandEvidence]) {
        let mut weights = vec![vec![0.0; Demand::SLOTS]; self.group.costs.len()];
        let is_own = |seen: &&ClassEvidence| seen.costs.iter().any(|(name, _)| self.place(name).is_some());
        for seen in others.iter().flat_map(|seen| &seen.classes).filter(is_own) {
            let table = SlotTable { costs: seen.costs.clone(), slots: Vec::new() };
            let Some(nearest) = (0..weights.len()).min_by_key(|class| table.distance(self.costs(*class))) else {
                return;
            };
            weights[nearest].iter_mut().zip(&seen.weights).for_each(|(sum, weight)| *sum += f64::from(*weight));
        }
        self.controller.set_elsewhere(&weights);
    }
}
