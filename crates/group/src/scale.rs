//! How many members a load needs.
//!
//! The load is the time that members spend on frames, in thousandths of what one member has; polling in vain is not among it. Members
//! are to be busy for the target at most. More of them come soon, and as many as the load asks for; fewer come late, one by one, and
//! only where those that are left would stay well below the target. So a load that stands still leads to a number that stands still,
//! and one that trembles by less than the slack does, too.
//!
//! A member that went and had to come back shows that the load comes in waves: from then on it stays twice as long each time, up to a
//! bound.

use std::time::Duration;

/// Thousandths of a member.
pub const WHOLE: u64 = 1000;

/// What the number of members is to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Members at least; at least 1.
    pub min: usize,
    /// Members at most.
    pub max: usize,
    /// How busy a member is to be at most, in thousandths: 1 to 1000.
    pub target: u64,
}

/// How hasty the controller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long the load has to be above the target before members are added.
    pub up: Duration,
    /// How long it has to be below before one goes.
    pub down: Duration,
    /// How long that time gets at most.
    pub down_most: Duration,
    /// Of the target, in thousandths, what the others may be busy for after one has gone.
    pub slack: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            up: Duration::from_millis(300),
            down: Duration::from_secs(5),
            down_most: Duration::from_secs(320),
            slack: 800,
        }
    }
}

/// What the members do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How busy they are, all together, in thousandths of a member.
    pub busy: u64,
    /// Whether frames were lost before them: then they are busier than they can be.
    pub is_losing: bool,
}

/// Says how many members there are to be.
#[derive(Clone, Debug)]
pub struct Controller {
    bounds: Bounds,
    rules: Rules,
    /// Since when the load has been above the target.
    above: Option<Duration>,
    /// Since when it has been so low that one could go.
    below: Option<Duration>,
    /// How long it has to be so low, at present.
    patience: Duration,
    /// When one has gone last.
    left: Option<Duration>,
}

impl Controller {
    /// A controller that keeps to these bounds.
    pub const fn new(bounds: Bounds, rules: Rules) -> Self {
        Self { bounds, rules, above: None, below: None, patience: rules.down, left: None }
    }

    /// Other bounds from now on.
    pub const fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// How many members there are to be, now that so many are active (those that come up among them) and this is their load. To be
    /// asked several times a second.
    pub fn wanted(&mut self, active: usize, load: Load, now: Duration) -> usize {
        let (min, max) = (self.bounds.min.max(1), self.bounds.max.max(self.bounds.min).max(1));
        if !(min..=max).contains(&active) {
            (self.above, self.below) = (None, None);
            return active.clamp(min, max);
        }
        let needed = self.needed(active, load).min(max);
        if needed > active {
            self.below = None;
            return self.more(active, needed, now);
        }
        self.above = None;
        if active > min && !load.is_losing && self.is_low(active, load) {
            return self.fewer(active, now);
        }
        self.below = None;
        active
    }

    /// Members that keep to the target.
    fn needed(&self, active: usize, load: Load) -> usize {
        let needed = load.busy.div_ceil(self.bounds.target.clamp(1, WHOLE));
        let needed = usize::try_from(needed).unwrap_or(usize::MAX);
        if load.is_losing { needed.max(active + 1) } else { needed }
    }

    /// Whether one member fewer would be busy well below the target.
    const fn is_low(&self, active: usize, load: Load) -> bool {
        let others = active.saturating_sub(1) as u64;
        load.busy.saturating_mul(WHOLE) <= others * self.bounds.target * self.rules.slack
    }

    fn more(&mut self, active: usize, needed: usize, now: Duration) -> usize {
        let since = *self.above.get_or_insert(now);
        if now.saturating_sub(since) < self.rules.up {
            return active;
        }
        self.above = None;
        let went_lately = self.left.take().is_some_and(|left| now.saturating_sub(left) <= 2 * self.patience);
        let patience = if went_lately { 2 * self.patience } else { self.rules.down };
        self.patience = patience.min(self.rules.down_most);
        needed
    }

    fn fewer(&mut self, active: usize, now: Duration) -> usize {
        let since = *self.below.get_or_insert(now);
        if now.saturating_sub(since) < self.patience {
            return active;
        }
        (self.below, self.left) = (None, Some(now));
        active - 1
    }
}

#[cfg(test)]
mod tests;
