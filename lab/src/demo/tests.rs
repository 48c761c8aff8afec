//! Effect of the options on the router's file.

use super::*;

fn nics(nic: Option<NicModel>, mode: Option<TransmitMode>, itr: Option<Itr>) -> Vec<config::Nic> {
    let plan = config::parse(&Options { nic, mode, itr }.file().expect("they fit"), "demo.toml")
        .expect("a good file");
    plan.routers.into_iter().flat_map(|router| router.nics).collect()
}

#[test]
fn every_nic_is_what_was_asked_for() {
    let plain = nics(None, None, None);
    assert_eq!(plain.len(), 4);
    assert!(plain.iter().all(|nic| nic.model == NicModel::VirtioNet && nic.itr == Itr::Every(0)));
    for mode in TransmitMode::ALL {
        for nic in nics(Some(NicModel::E1000), Some(mode), Some(Itr::Every(100))) {
            assert_eq!((nic.model, nic.mode, nic.itr), (NicModel::E1000, mode, Itr::Every(100)));
        }
    }
    let adaptive = nics(Some(NicModel::VirtioNet), None, Some(Itr::Adaptive));
    assert!(adaptive.iter().all(|nic| nic.itr == Itr::Adaptive));
}

#[test]
fn a_mode_says_which_model() {
    assert!(nics(None, Some(TransmitMode::Base), None).iter().all(|nic| nic.model == NicModel::E1000));
    let both = Options { nic: Some(NicModel::VirtioNet), mode: Some(TransmitMode::Csb), itr: None };
    let refused = both.file().expect_err("a mode of another model").to_string();
    assert_eq!(refused, "--mode: only an e1000 has it; remove it, or write --nic e1000");
}
