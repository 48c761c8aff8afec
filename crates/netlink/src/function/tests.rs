use netlink_packet_route::link::{VfInfoLinkState, VfLinkState};

use super::*;

const MAC: Mac = [2, 0, 0, 0, 7, 1];

fn shown(lists: Vec<LinkVfInfo>) -> Vec<Function> {
    let mut message = LinkMessage::default();
    message.header.index = 3;
    message.attributes.push(LinkAttribute::IfName("eth0".to_owned()));
    message.attributes.push(LinkAttribute::VfInfoList(lists));
    let (there, found) = Functions::read(RouteNetlinkMessage::NewLink(message)).expect("it is about a link");
    assert!(there && found.key() == (3, ()));
    found.functions
}

#[test]
fn functions_are_read_in_the_order_of_their_numbers() {
    let all = [
        FunctionSetting::Mac(MAC),
        FunctionSetting::Vlan(30),
        FunctionSetting::SpoofCheck(true),
        FunctionSetting::Trusted(true),
    ];
    let whole = LinkVfInfo(all.into_iter().map(|setting| setting.attribute(1)).collect());
    let bare = LinkVfInfo(vec![
        FunctionSetting::Mac([0; 6]).attribute(0),
        VfInfo::LinkState(VfInfoLinkState::new(0, VfLinkState::Auto)),
    ]);
    let wanted = Function { number: 1, mac: MAC, vlan: 30, spoof_check: true, trusted: true };
    assert_eq!(shown(vec![whole, bare]), [Function::default(), wanted]);
}

#[test]
fn one_without_a_number_is_left_out() {
    let lists = vec![LinkVfInfo(vec![FunctionSetting::Vlan(1).attribute(0)]), LinkVfInfo(vec![])];
    assert!(shown(lists).is_empty());
}

#[test]
fn an_interface_that_says_nothing_has_none() {
    let message = RouteNetlinkMessage::NewLink(LinkMessage::default());
    assert!(Functions::read(message).expect("a link").1.functions.is_empty());
}
