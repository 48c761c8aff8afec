use super::*;

#[test]
fn there_is_a_table_for_each_nic_if_all_are_in_vrfs_of_their_own() {
    let nic = |number: usize| {
        format!(
            "[[router.nic]]\nname = 'n{number}'\nattach = 'null'\naddress = '192.0.2.1/24'\nvrf = 'v{number}'\n"
        )
    };
    let text = format!("[[router]]\nname = 'a'\n{}", (0..MAX_NICS).map(nic).collect::<String>());
    let plan = config::parse(&text, "f.toml").expect("a good file").routers.remove(0);
    let info = boot_info(&plan, GuestTask::default());
    assert_eq!((info.nic_count, info.tables), (MAX_NICS as u32, MAX_NICS as u32 + 1));
    assert!(info.nics.iter().map(|nic| nic.table).eq(1..=MAX_NICS as u32));
}

#[test]
fn a_member_of_a_group_is_told_that_others_have_its_addresses() {
    let nic = |table: &str| {
        format!("[[{table}.nic]]\nname = 'lan'\nattach = 'tap:lan'\naddress = '192.0.2.1/24'\n")
    };
    let router = format!("[[router]]\nname = 'a'\n{}", nic("router"));
    let group = format!("[[group]]\nname = 'a'\nkind = 'parallel'\nmembers = 2\n{}", nic("group"));
    let told = [router, group].map(|text| {
        let plan = config::parse(&text, "f.toml").expect("a good file");
        boot_info(&plan.routers[0], GuestTask::default()).shares_addresses
    });
    assert_eq!(told, [0, 1]);
}
