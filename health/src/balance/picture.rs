//! What a setting of acceptance would lead to: every known demand, asked of the real decision.

use std::collections::BTreeMap;

use fairway_model::{AcceptedShare, Demand, Shares};

use super::{Places, Settings};

/// Near and spill acceptance of each cluster, 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setting {
    pub(super) near: Vec<f64>,
    pub(super) spill: Vec<f64>,
}

impl Setting {
    /// A part of the way from this setting to another.
    pub(super) fn towards(&self, goal: &Self, part: f64) -> Self {
        let way = |from: &[f64], to: &[f64]| from.iter().zip(to).map(|(a, b)| a + part * (b - a)).collect();
        Self { near: way(&self.near, &goal.near), spill: way(&self.spill, &goal.spill) }
    }

    /// As the deciding code reads it.
    pub(super) fn shares(&self, settings: &Settings, pins: &BTreeMap<Demand, usize>) -> Shares {
        let part = |part: f64| (part.clamp(0.0, 1.0) * 65_535.0).round() as u16;
        let given = |place: usize| AcceptedShare { local: part(self.near[place]), overflow: part(self.spill[place]) };
        let clusters = settings.clusters.iter().enumerate();
        let pins = pins.iter().map(|(demand, place)| (*demand, settings.clusters[*place].name.clone()));
        Shares {
            epoch: 0,
            accepted: clusters.map(|(place, declared)| (declared.name.clone(), given(place))).collect(),
            pins: pins.collect(),
        }
    }
}

/// The known demands at one time, and what each cluster may get of them.
pub(super) struct Scene<'a, 'p> {
    pub(super) settings: &'a Settings,
    pub(super) pins: &'a BTreeMap<Demand, usize>,
    pub(super) available: &'a [bool],
    pub(super) demands: Vec<Demand>,
    pub(super) loads: Vec<f64>,
    /// Whether each is pinned.
    pub(super) pinned: Vec<bool>,
    /// Where each would be if every cluster took everything.
    pub(super) home: Vec<Option<usize>>,
    /// In the unit of the capacities.
    pub(super) budgets: Vec<f64>,
    pub(super) places: &'a mut Places<'p>,
}

/// Where demands are, and what that makes for each cluster.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub(super) place: Vec<Option<usize>>,
    pub(super) total: Vec<f64>,
    /// Of demands that are at home.
    pub(super) natives: Vec<f64>,
    /// Of demands that are at home elsewhere.
    pub(super) guests: Vec<f64>,
    /// Of pinned ones, which are neither.
    pub(super) pinned: Vec<f64>,
}

impl Picture {
    /// Load of demands that are at home.
    pub(super) fn near(&self) -> f64 {
        self.natives.iter().sum()
    }
}

impl Scene<'_, '_> {
    /// Load of all known demands.
    pub(super) fn whole(&self) -> f64 {
        self.loads.iter().sum()
    }

    /// The clusters that can be answered.
    pub(super) fn clusters(&self) -> impl Iterator<Item = usize> + use<> {
        let available: Vec<usize> = (0..self.available.len()).filter(|place| self.available[*place]).collect();
        available.into_iter()
    }

    /// Asks the real decision what a setting would lead to.
    pub(super) fn look(&mut self, setting: &Setting) -> Picture {
        let mut place = (self.places)(&setting.shares(self.settings, self.pins), &self.demands);
        place.resize(self.demands.len(), None);
        let zero = || vec![0.0; self.budgets.len()];
        let mut picture = Picture { place, total: zero(), natives: zero(), guests: zero(), pinned: zero() };
        for (i, load) in self.loads.iter().enumerate() {
            let Some(place) = picture.place.get(i).copied().flatten().filter(|place| *place < self.budgets.len())
            else {
                continue;
            };
            picture.total[place] += load;
            let kind = match (self.pinned[i], self.home[i] == Some(place)) {
                (true, _) => &mut picture.pinned,
                (false, true) => &mut picture.natives,
                (false, false) => &mut picture.guests,
            };
            kind[place] += load;
        }
        picture
    }

    /// By how much clusters are over their budgets and a bit more, all together.
    pub(super) fn excess(&self, picture: &Picture, slack: f64) -> f64 {
        self.clusters().map(|place| (picture.total[place] - self.budgets[place] * (1.0 + slack)).max(0.0)).sum()
    }

    /// What moves from one picture to another.
    pub(super) fn flow(&self, from: &Picture, to: &Picture) -> Flow {
        let mut whole = 0.0;
        let (mut gained, mut lost) = (vec![0.0; self.budgets.len()], vec![0.0; self.budgets.len()]);
        for ((from, to), load) in from.place.iter().zip(&to.place).zip(&self.loads).filter(|((from, to), _)| from != to)
        {
            whole += load;
            from.and_then(|place| lost.get_mut(place)).into_iter().for_each(|all| *all += load);
            to.and_then(|place| gained.get_mut(place)).into_iter().for_each(|all| *all += load);
        }
        Flow { whole, each: gained.into_iter().zip(lost).map(|(gained, lost)| f64::max(gained, lost)).collect() }
    }
}

/// Load of the demands that are elsewhere in another picture.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) whole: f64,
    /// Of each cluster: what it gains, or what it loses where that is more.
    pub(super) each: Vec<f64>,
}
