use std::time::Duration;

use super::{GeneratorSink, RingToRing};
use crate::experiment::{Experiment, Options, Sample};

const SHORT: Duration = Duration::from_millis(5);

fn slice(experiment: &mut dyn Experiment) -> Sample {
    experiment.prepare().unwrap();
    let sample = experiment.run_slice(SHORT).unwrap();
    experiment.finish().unwrap();
    sample
}

fn figure(sample: &Sample, name: &str) -> f64 {
    sample.more.iter().find(|(known, _)| *known == name).unwrap().1
}

#[test]
fn generator_to_sink_loses_nothing() {
    for rate in [None, Some(1e6)] {
        let sample = slice(&mut GeneratorSink::new(&Options { rate, ..Options::default() }));
        assert!(sample.packets > 0);
        assert_eq!((sample.lost, figure(&sample, "bad")), (0, 0.0));
    }
}

#[test]
fn ring_to_ring_loses_and_damages_nothing() {
    for (entries, frame) in [(64, 64), (256, 60), (256, 1514)] {
        let mut experiment = RingToRing::new(&Options { frame, ..Options::default() }, entries);
        assert_eq!(experiment.case(), format!("wire/ring-{entries}/{frame}"));
        let sample = slice(&mut experiment);
        assert!(sample.packets > 0);
        assert_eq!((sample.lost, figure(&sample, "damaged")), (0, 0.0));
        assert_eq!(sample.ledger.get("receiver.rx.frames"), Some(sample.packets));
        assert_eq!(sample.ledger.get("sender.tx.frames"), Some(sample.packets));
        assert_eq!(sample.ledger.total("drop_"), 0);
    }
}

#[test]
fn what_cannot_be_built_is_refused() {
    let too_long = Options { frame: 4000, ..Options::default() };
    assert!(RingToRing::new(&too_long, 256).prepare().unwrap_err().to_string().contains("4000"));
    assert!(RingToRing::new(&Options::default(), 100).prepare().is_err());
    assert!(RingToRing::new(&Options::default(), 256).run_slice(SHORT).is_err());
    assert!(GeneratorSink::new(&Options { frame: 1, ..Options::default() }).prepare().is_err());
}
