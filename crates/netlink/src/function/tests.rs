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
        FunctionSetting::Vlan(FunctionVlan { priority: 5, ..FunctionVlan::new(30) }),
        FunctionSetting::SpoofCheck(true),
        FunctionSetting::Trusted(true),
    ];
    let whole = LinkVfInfo(all.into_iter().map(|setting| setting.attribute(1)).collect());
    let bare = LinkVfInfo(vec![
        FunctionSetting::Mac([0; 6]).attribute(0),
        VfInfo::LinkState(VfInfoLinkState::new(0, VfLinkState::Auto)),
    ]);
    let vlan = FunctionVlan { id: 30, priority: 5, is_service: false };
    let wanted = Function { number: 1, mac: MAC, vlan, spoof_check: true, trusted: true };
    assert_eq!(shown(vec![whole, bare]), [Function::default(), wanted]);
}

#[test]
fn a_service_tag_is_told_with_the_plain_attribute() {
    let mut tag = FunctionVlan { id: 30, priority: 3, is_service: true };
    let told = |tag: FunctionVlan, plain: FunctionVlan| {
        let plain = FunctionSetting::Vlan(plain).attribute(0);
        let tag = FunctionSetting::Vlan(tag).attribute(0);
        shown(vec![LinkVfInfo(vec![FunctionSetting::Mac(MAC).attribute(0), plain, tag])])[0].vlan
    };
    let plain = FunctionVlan { is_service: false, ..tag };
    assert_eq!(told(tag, plain), tag);
    assert_eq!(told(plain, plain), plain);
    (tag.id, tag.priority) = (0, 0);
    assert_eq!(told(tag, FunctionVlan::default()), FunctionVlan::default(), "without a VLAN there is no tag");
}

#[test]
fn one_without_a_number_is_left_out() {
    let vlan = FunctionSetting::Vlan(FunctionVlan::new(1)).attribute(0);
    let lists = vec![LinkVfInfo(vec![vlan]), LinkVfInfo(vec![])];
    assert!(shown(lists).is_empty());
}

#[test]
fn an_interface_that_says_nothing_has_none() {
    let message = RouteNetlinkMessage::NewLink(LinkMessage::default());
    assert!(Functions::read(message).expect("a link").1.functions.is_empty());
}
