mod admission;
mod control;
mod learning;
mod memory;

use super::*;

/// Core of this machine: 2.6 GHz.
fn core(cpu: u32) -> Core {
    Core { cpu, hertz: 2.6e9, most: 0.9, reserved: 0.0 }
}

fn seen(cycles: f64) -> Cost {
    Cost { cycles, basis: Basis::Measured { frames: 1000 } }
}

/// Promise on CPU 1.
fn promise(router: &str, pps: f64, cycles: f64) -> Promise {
    Promise { router: router.to_owned(), pps, needs: vec![Need { cpu: 1, cost: seen(cycles) }] }
}
