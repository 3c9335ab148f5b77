//! Random streams of containers that come and go. The same seed gives the same stream, so that policies can be compared on it.

use neuron_container_runtime::topology::InstanceType;

/// What a container asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Whole chips.
    Chips(u32),
    /// Logical cores of a chip.
    Cores(u32),
}

/// What containers ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mix {
    /// 1, 2, 4, 8 and 16 chips, each as often as the others.
    Even,
    /// Twice the chips are asked for half as often: every size keeps as many chips busy as the others.
    Small,
    /// As `Small`, but every second container asks for cores of one chip.
    Cores,
}

impl Mix {
    pub(crate) const ALL: [Self; 3] = [Self::Even, Self::Small, Self::Cores];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Small => "small",
            Self::Cores => "cores",
        }
    }
}

/// A container: when it comes, how long it would live, and what it asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Visit {
    pub(crate) comes: f64,
    pub(crate) goes: f64,
    pub(crate) ask: Ask,
}

/// What a stream is made from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream<'a> {
    pub(crate) kind: &'a InstanceType,
    pub(crate) mix: Mix,
    /// Chips that would be busy on a host without end, in parts of the host's.
    pub(crate) load: f64,
    pub(crate) visits: u32,
    pub(crate) seed: u64,
}

/// How many physical cores make a logical one, as the Neuron runtime has it by default.
pub(crate) fn lnc(kind: &InstanceType) -> u32 {
    if kind.name.starts_with("trn2") { 2 } else { 1 }
}

impl Stream<'_> {
    /// The containers, by the time at which they come. Both the time between two and a life are exponentially distributed, a life of 1 on
    /// average.
    pub(crate) fn visits(&self) -> Vec<Visit> {
        let mut dice = fastrand::Rng::with_seed(self.seed);
        let asks = self.asks();
        let weight: f64 = asks.iter().map(|(_, weight)| weight).sum();
        let size = asks.iter().map(|(ask, weight)| weight * self.chips(*ask)).sum::<f64>() / weight;
        let between = size / (self.load * f64::from(self.kind.chips));
        let mut now = 0.0;
        let visit = |_| {
            now += between * exponential(&mut dice);
            let mut point = dice.f64() * weight;
            let drawn = asks.iter().find(|(_, weight)| {
                point -= weight;
                point < 0.0
            });
            let ask = drawn.or(asks.last()).map_or(Ask::Chips(1), |(ask, _)| *ask);
            Visit { comes: now, goes: now + exponential(&mut dice), ask }
        };
        (0..self.visits).map(visit).collect()
    }

    /// How many containers ask for so many chips while one lives on average.
    pub(crate) fn rates(&self) -> Vec<(u32, f64)> {
        let asks = self.asks();
        let chips: f64 = asks.iter().map(|(ask, weight)| weight * self.chips(*ask)).sum();
        let rate = |(ask, weight): (Ask, f64)| match ask {
            Ask::Chips(chips_of) => Some((chips_of, weight * self.load * f64::from(self.kind.chips) / chips)),
            Ask::Cores(_) => None,
        };
        asks.into_iter().filter_map(rate).collect()
    }

    /// What is asked for on this host, and how often.
    fn asks(&self) -> Vec<(Ask, f64)> {
        let sizes = [1, 2, 4, 8, 16].into_iter().filter(|size| *size <= self.kind.chips);
        let weight = |size: u32| if self.mix == Mix::Even { 1.0 } else { f64::from(size).recip() };
        let mut asks: Vec<_> = sizes.map(|size| (Ask::Chips(size), weight(size))).collect();
        if self.mix == Mix::Cores {
            let half: f64 = asks.iter().map(|(_, weight)| weight).sum();
            let most = self.kind.cores / lnc(self.kind);
            asks.extend((1..=most).map(|cores| (Ask::Cores(cores), half / f64::from(most))));
        }
        asks
    }

    fn chips(&self, ask: Ask) -> f64 {
        match ask {
            Ask::Chips(chips) => f64::from(chips),
            Ask::Cores(cores) => f64::from(cores * lnc(self.kind)) / f64::from(self.kind.cores),
        }
    }
}

fn exponential(dice: &mut fastrand::Rng) -> f64 {
    -(1.0 - dice.f64()).ln()
}
