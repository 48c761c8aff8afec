//! Admission control of promised rates.

use super::model::{Basis, Cost};

/// Tolerance for rounding of shares where they are carried out.
const ROUNDING: f64 = 1e-9;

/// A core's capacity for promises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Core {
    /// CPU number.
    pub cpu: u32,
    /// Frequency of the time-stamp counter in Hz.
    pub hertz: f64,
    /// Part of it that can be promised in total: real-time throttling leaves 0.95, a kernel with a fair
    /// server about 0.90.
    pub most: f64,
    /// Part that is reserved for other purposes.
    pub reserved: f64,
}

/// Cost of a router's packets on one core, for all its threads there together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// CPU number.
    pub cpu: u32,
    /// Cost per packet.
    pub cost: Cost,
}

/// A promised rate, or one that is requested.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// Name of the router.
    pub router: String,
    /// Rate in packets/s.
    pub pps: f64,
    /// Costs by core.
    pub needs: Vec<Need>,
}

impl Promise {
    /// Part of a core that the promise takes.
    pub fn share(&self, core: &Core) -> f64 {
        let needs = self.needs.iter().filter(|need| need.cpu == core.cpu);
        let cycles: f64 = needs.map(|need| need.cost.cycles).sum();
        self.pps * cycles / core.hertz
    }
}

/// Refusal of a rate: one line, with the arithmetic.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{line}")]
pub struct Refusal {
    /// Name of the router.
    pub router: String,
    line: String,
}

/// Part of each core that `asked` takes, if it fits beside the promises `held`. A promise to the same router
/// among those is the one that it replaces.
///
/// # Errors
/// In one line, which core is too small, by how much, and which rate would fit.
pub fn admit(cores: &[Core], held: &[Promise], asked: &Promise) -> Result<Vec<(u32, f64)>, Refusal> {
    let refusal = |line| Refusal { router: asked.router.clone(), line };
    for need in &asked.needs {
        if cores.iter().all(|core| core.cpu != need.cpu) {
            return Err(refusal(format!("CPU {} is not there, so nothing can be promised on it", need.cpu)));
        }
    }
    let mut shares = Vec::new();
    for core in cores.iter().filter(|core| asked.needs.iter().any(|need| need.cpu == core.cpu)) {
        let others = held.iter().filter(|promise| promise.router != asked.router);
        // + 0.0: an empty sum is -0.
        let taken = core.reserved + others.map(|promise| promise.share(core)).sum::<f64>() + 0.0;
        let share = asked.share(core);
        if share + taken > core.most + ROUNDING {
            return Err(refusal(arithmetic(asked, core, taken)));
        }
        shares.push((core.cpu, share));
    }
    Ok(shares)
}

/// Text such as `400 kpps x 5200 cycles (measured over 70000 packets) = 2.08 GHz of 2.60 GHz on CPU 1, 0.80;
/// 0.35 already promised; at most 0.90 can be`, and the rate that would fit.
fn arithmetic(asked: &Promise, core: &Core, taken: f64) -> String {
    let needs: Vec<&Need> = asked.needs.iter().filter(|need| need.cpu == core.cpu).collect();
    let cycles: f64 = needs.iter().map(|need| need.cost.cycles).sum();
    let basis = needs.iter().map(|need| need.cost.basis).reduce(Basis::weaker).unwrap_or(Basis::Default);
    let guessed = basis == Basis::Default;
    let fits = ((core.most - taken) * core.hertz / cycles.max(1.0)).max(0.0);
    let fits = match (fits < 1.0, guessed) {
        (true, _) => "no rate fits".to_owned(),
        (false, false) => format!("{} would fit", rate(fits)),
        (false, true) => format!("{} would fit; {}", rate(fits), way_out(asked)),
    };
    format!(
        "{} x {cycles:.0} cycles ({basis}) = {:.2} GHz of {:.2} GHz on CPU {}, {:.2}; {taken:.2} already promised; at most {:.2} \
         can be; {fits}",
        rate(asked.pps),
        asked.pps * cycles / 1e9,
        core.hertz / 1e9,
        core.cpu,
        asked.share(core),
        core.most,
    )
}

/// Advice on how to get the cost measured.
fn way_out(asked: &Promise) -> String {
    format!(
        "to be judged by what packets cost here: start with that, send all that it takes for some seconds, then \
         `ringroad set {} guarantee={}`, and it is remembered",
        asked.router,
        rate(asked.pps).replace(' ', ""),
    )
}

/// Rate rounded down to three digits: `400 kpps`.
pub(super) fn rate(pps: f64) -> String {
    let (value, unit) = match pps {
        pps if pps >= 1e6 => (pps / 1e6, "Mpps"),
        pps if pps >= 1e3 => (pps / 1e3, "kpps"),
        _ => (pps, "pps"),
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let scale = 10_f64.powi(digits);
    // The addend keeps whole numbers whole despite rounding errors.
    let value = (value * scale + 1e-6).floor() / scale;
    format!("{value} {unit}")
}
