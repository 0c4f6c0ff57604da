//! Which modules of the kernel a guest's commands need: of `tc`, `nft` and `iptables`. Programs in a guest may not load modules.
//!
//! A module is needed if a command names it, or, where commands do not name them, if it belongs to the tool.

use warpline_agent::{Check, Order};

use crate::kernel::Kernel;
use crate::tools::{TC, TOOLS, Tool};

/// The files of the modules, each after those that it needs.
pub(crate) fn needed(order: &Order, kernel: &Kernel) -> Vec<String> {
    let own: Vec<String> =
        order.hosts.iter().flat_map(|host| host.tc.iter().flatten()).flat_map(|text| words(text)).collect();
    let checks = order.conditions.iter().filter_map(|condition| match &condition.check {
        Check::Command(command) => Some(command),
        _ => None,
    });
    let programs = order.programs.iter().map(|program| &program.words);
    let commands = programs.chain(order.console.iter().map(|console| &console.words)).chain(checks);
    let commands: Vec<Vec<String>> =
        commands.map(|command| command.iter().flat_map(|word| words(word)).collect()).collect();
    let mut files: Vec<String> = Vec::new();
    let mut add = |more: Vec<String>| {
        for file in more {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    };
    for word in &own {
        named(&TC, word, kernel).for_each(&mut add);
    }
    for tool in &TOOLS {
        for words in
            commands.iter().filter(|words| words.iter().any(|word| tool.words.contains(&word.as_str())))
        {
            for begin in tool.all {
                kernel.modules_from(begin).for_each(&mut add);
            }
            for word in words {
                named(tool, word, kernel).for_each(&mut add);
            }
        }
    }
    files
}

/// The words of a command line, as they stand in names of modules.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.split(move |c: char| !is_part(c)).filter(|word| !word.is_empty()).map(|word| word.replace('-', "_"))
}

/// The modules that a word of a tool's command names.
fn named<'a>(tool: &Tool, word: &'a str, kernel: &'a Kernel) -> impl Iterator<Item = Vec<String>> + 'a {
    // The queue for what comes in has another name as a module.
    let word = if word == "clsact" { "ingress" } else { word };
    // A target in capitals can be in the module of the match: MARK in xt_mark.
    let both = [word.to_owned(), word.to_ascii_lowercase()];
    let names =
        both.into_iter().flat_map(|word| tool.named.iter().map(move |begin| format!("{begin}{word}")));
    names.map(|name| kernel.module(&name))
}

#[cfg(test)]
mod tests {
    use warpline_agent::{ConditionOrder, ConsoleOrder, ProgramOrder};

    use super::*;

    #[test]
    fn commands_need_what_they_name_and_what_their_tool_has() {
        let names = [
            "sch_cake",
            "sch_ingress",
            "act_mirred",
            "nf_tables",
            "nft_masq",
            "iptable_nat",
            "xt_MASQUERADE",
            "xt_mark",
            "xt_time",
        ];
        let listed: String = names.iter().map(|name| format!("net/{name}.ko:\n")).collect();
        let kernel = Kernel::with_modules(&listed);
        let needs = |order: &Order| {
            let files = needed(order, &kernel);
            let name = |file: &String| file.rsplit('/').next().unwrap().trim_end_matches(".ko").to_owned();
            files.iter().map(name).collect::<Vec<String>>()
        };
        let shell = |command: &str| vec!["sh".to_owned(), "-c".to_owned(), command.to_owned()];
        let of = |command: &str| {
            let program = ProgramOrder { words: shell(command), ..ProgramOrder::default() };
            needs(&Order { programs: vec![program], ..Order::default() })
        };
        assert!(of("echo cake").is_empty());
        assert_eq!(of("tc qdisc add dev eth0 clsact"), ["sch_ingress"]);
        assert_eq!(
            of("tc qdisc replace dev eth0 root cake; nft list ruleset"),
            ["sch_cake", "nf_tables", "nft_masq"]
        );
        assert_eq!(
            of("iptables-legacy -t nat -A POSTROUTING -j MASQUERADE"),
            ["iptable_nat", "xt_MASQUERADE"]
        );
        assert_eq!(of("iptables-legacy -j MARK"), ["iptable_nat", "xt_mark"]);
        // Programs are not the only ones with commands.
        let console = ConsoleOrder {
            host: 0,
            words: shell("tc qdisc add dev eth0 root cake"),
            environment: vec![],
            directory: "/".to_owned(),
            start: 0,
            output: None,
            size: None,
        };
        let condition = ConditionOrder {
            id: 0,
            host: 0,
            check: Check::Command(shell("nft list ruleset")),
            program: None,
            start: 0,
            limit: 0,
        };
        let order = Order { console: Some(console), conditions: vec![condition], ..Order::default() };
        assert_eq!(needs(&order), ["sch_cake", "nf_tables", "nft_masq"]);
    }
}
