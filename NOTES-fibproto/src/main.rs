//! Compares prototypes of an IPv6 route table; see README.md.

mod design;
mod poptrie;
mod routes;
mod strides;
mod strides_cover;
mod tree;

use std::hint::black_box;
use std::time::{Duration, Instant};

use design::Design;
use routes::{Naive, Random, Route};

const BURST: usize = 64;
const SLICE: Duration = Duration::from_millis(100);
const ROUNDS: usize = 10;

/// Measured rates of one design, of all rounds.
struct Rates {
    name: String,
    plain: Vec<f64>,
    burst: Vec<f64>,
}

fn main() {
    let count = std::env::args()
        .nth(1)
        .map_or(250_000, |text| text.parse().expect("a number of routes"));
    let all = routes::routes(count, 1);
    let to = routes::destinations(&all, 1 << 16, 2);
    let few = [
        Route {
            prefix: 0x2000 << 112,
            len: 4,
            hop: 1,
        },
        Route {
            prefix: 0x3000 << 112,
            len: 4,
            hop: 2,
        },
    ];
    println!("{} routes, {} destinations", all.len(), to.len());
    let naive = Naive::new(&all);
    let strides = |most, second| strides::Strides::new(&all, most, second);
    let designs = vec![
        row("strides T=8", strides(8, 8)),
        row("strides T=16", strides(16, 8)),
        row("strides T=32", strides(32, 8)),
        row("strides T=64", strides(64, 8)),
        row("dxr16 T=16", strides(16, 16)),
        row("dxr16 T=32", strides(32, 16)),
        row("dxr16 T=256", strides(256, 16)),
        row("poptrie", poptrie::Poptrie::new(&all)),
        row("intervals", tree::Tree::new(&all)),
        row("strides, 2 routes", strides::Strides::new(&few, 32, 8)),
    ];
    for (name, design) in &designs {
        let wrong = if name.contains("2 routes") {
            0
        } else {
            design.wrong(&naive, &all)
        };
        let reads: Vec<usize> = to.iter().map(|ip| design.reads_of(*ip)).collect();
        let mean = reads.iter().sum::<usize>() as f64 / reads.len() as f64;
        println!(
            "{name:18} {:8.2} MiB, reads {mean:.2} mean, {} most, {wrong} wrong",
            design.size() as f64 / 1048576.0,
            reads.iter().max().unwrap_or(&0)
        );
        assert_eq!(wrong, 0, "{name}");
    }
    let mut rates: Vec<Rates> = designs
        .iter()
        .map(|(name, _)| Rates {
            name: name.clone(),
            plain: vec![],
            burst: vec![],
        })
        .collect();
    // Interleaved: each round measures all designs.
    for _ in 0..ROUNDS {
        for ((_, design), rates) in designs.iter().zip(&mut rates) {
            rates.plain.push(design.plain(&to));
            rates.burst.push(design.burst(&to));
        }
    }
    for mut rates in rates {
        let middle = |all: &mut Vec<f64>| {
            all.sort_by(f64::total_cmp);
            (all[all.len() / 2], all[0], all[all.len() - 1])
        };
        let (plain, burst) = (middle(&mut rates.plain), middle(&mut rates.burst));
        println!(
            "{:18} plain {:6.1} M/s ({:.1} to {:.1}), bursts of {BURST}: {:6.1} M/s ({:.1} to {:.1})",
            rates.name, plain.0, plain.1, plain.2, burst.0, burst.1, burst.2
        );
    }
}

fn row(name: &str, design: impl Bench + 'static) -> (String, Box<dyn Bench>) {
    (name.to_owned(), Box::new(design))
}

/// A design behind one dynamic call a measurement.
trait Bench {
    fn size(&self) -> usize;
    fn reads_of(&self, ip: u128) -> usize;
    fn wrong(&self, naive: &Naive, routes: &[Route]) -> usize;
    fn plain(&self, to: &[u128]) -> f64;
    fn burst(&self, to: &[u128]) -> f64;
}

impl<D: Design> Bench for D {
    fn size(&self) -> usize {
        self.octets()
    }

    fn reads_of(&self, ip: u128) -> usize {
        self.reads(ip)
    }

    fn wrong(&self, naive: &Naive, all: &[Route]) -> usize {
        let mut random = Random::new(5);
        let mut any = || u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        let borders = all.iter().step_by(3).flat_map(|route| {
            let last = route.prefix | !routes::mask(route.len);
            [
                route.prefix,
                route.prefix.wrapping_sub(1),
                last,
                last.wrapping_add(1),
            ]
        });
        let probes: Vec<u128> = borders
            .chain((0..100_000).map(|_| 0x2000 << 112 | any() >> 3))
            .collect();
        probes
            .into_iter()
            .filter(|ip| self.look_up(*ip) != naive.look_up(*ip))
            .count()
    }

    fn plain(&self, to: &[u128]) -> f64 {
        rate(to.len(), || {
            for ip in to {
                black_box(self.look_up(*ip));
            }
        })
    }

    fn burst(&self, to: &[u128]) -> f64 {
        rate(to.len(), || {
            for ips in to.chunks(BURST) {
                let mut steps = [D::Step::default(); BURST];
                for (step, ip) in steps.iter_mut().zip(ips) {
                    *step = self.first(*ip);
                }
                for _ in 0..D::STEPS {
                    let mut left = false;
                    for step in &mut steps[..ips.len()] {
                        if !self.is_done(*step) {
                            *step = self.next(*step);
                            left = true;
                        }
                    }
                    if !left {
                        break;
                    }
                }
                for step in &steps[..ips.len()] {
                    black_box(self.found(*step));
                }
            }
        })
    }
}

/// Returns millions of look-ups a second.
fn rate(look_ups: usize, mut pass: impl FnMut()) -> f64 {
    let (start, mut passes) = (Instant::now(), 0);
    while start.elapsed() < SLICE {
        pass();
        passes += 1;
    }
    (passes * look_ups) as f64 / start.elapsed().as_secs_f64() / 1e6
}
