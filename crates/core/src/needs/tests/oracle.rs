//! A second, naive reading of what terms mean, to hold the evaluator against. It shares no code with it.

use proptest::collection::{btree_map, vec};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Atom {
    Thousandths(i32),
    Word(&'static str),
}

#[derive(Debug, Clone)]
pub(super) enum Ability {
    Flag,
    One(Atom),
    Many(Vec<Atom>),
}

/// `operator` is as it is written; `""` asks for presence and `"!"` for absence.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    name: &'static str,
    operator: &'static str,
    atoms: Vec<Atom>,
    spaced: bool,
}

pub(super) type Worker = BTreeMap<&'static str, Ability>;

fn name() -> impl Strategy<Value = &'static str> {
    select(vec!["a", "gpu", "in", "x.y-z_1"])
}

fn number() -> impl Strategy<Value = Atom> {
    select(vec![-1_500, -1_000, 0, 1, 500, 1_000, 2_000, 10_000]).prop_map(Atom::Thousandths)
}

fn atom() -> impl Strategy<Value = Atom> {
    let words = select(vec!["x", "Y", "1", "0.5", "", "with space", "q\"uo\\te", "é,)]", "c++", "-"]);
    prop_oneof![number(), words.prop_map(Atom::Word)]
}

pub(super) fn worker() -> impl Strategy<Value = Worker> {
    let ability = prop_oneof![
        Just(Ability::Flag),
        number().prop_map(Ability::One),
        atom().prop_map(Ability::One),
        vec(atom(), 1..5).prop_map(Ability::Many),
    ];
    btree_map(name(), ability, 0..5)
}

pub(super) fn asked() -> impl Strategy<Value = Asked> {
    let condition = prop_oneof![
        select(vec!["", "!"]).prop_map(|operator| (operator, Vec::new())),
        (select(vec!["=", "!="]), vec(atom(), 1)),
        (select(vec![">=", ">", "<=", "<"]), vec(number(), 1)),
        (select(vec!["in", "notin"]), vec(atom(), 1..5)),
    ];
    (name(), condition, any::<bool>()).prop_map(|(name, (operator, atoms), spaced)| Asked {
        name,
        operator,
        atoms,
        spaced,
    })
}

fn written(atom: &Atom) -> String {
    match atom {
        Atom::Thousandths(count) => {
            let sign = if *count < 0 { "-" } else { "" };
            format!("{sign}0{}.{:03}00", count.abs() / 1_000, count.abs() % 1_000)
        }
        Atom::Word(word) => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

fn written_list(atoms: &[Atom]) -> String {
    atoms.iter().map(written).collect::<Vec<_>>().join(" , ")
}

impl Asked {
    pub(super) fn written(&self) -> String {
        let space = if self.spaced { "  " } else { "" };
        let (name, operator, list) = (self.name, self.operator, written_list(&self.atoms));
        match operator {
            "!" => format!("{space}!{space}{name}"),
            "in" | "notin" => format!("{name} {space}{operator}{space}({space}{list}{space}){space}"),
            _ => format!("{space}{name}{space}{operator}{space}{list}"),
        }
    }

    pub(super) fn holds(&self, worker: &Worker) -> bool {
        let has = worker.get(self.name);
        let values: &[Atom] = match has {
            Some(Ability::One(atom)) => std::slice::from_ref(atom),
            Some(Ability::Many(atoms)) => atoms,
            Some(Ability::Flag) | None => &[],
        };
        let shared = values.iter().filter(|value| self.atoms.contains(value)).count();
        match self.operator {
            "" => has.is_some(),
            "!" => has.is_none(),
            "=" | "in" => shared > 0,
            "!=" | "notin" => shared == 0,
            _ => self.compares(has),
        }
    }

    fn compares(&self, has: Option<&Ability>) -> bool {
        let (Some(Ability::One(Atom::Thousandths(has))), Atom::Thousandths(bound)) = (has, &self.atoms[0])
        else {
            return false;
        };
        match self.operator {
            ">=" => has - bound >= 0,
            ">" => has - bound > 0,
            "<=" => bound - has >= 0,
            "<" => bound - has > 0,
            other => unreachable!("{other}"),
        }
    }
}

pub(super) fn written_worker(worker: &Worker) -> String {
    let ability = |(name, ability): (&&str, &Ability)| match ability {
        Ability::Flag => (*name).to_string(),
        Ability::One(atom) => format!("{name} = {}", written(atom)),
        Ability::Many(atoms) => format!("{name}=[ {} ]", written_list(atoms)),
    };
    worker.iter().map(ability).collect::<Vec<_>>().join(",")
}

pub(super) fn written_all(asked: &[Asked]) -> String {
    asked.iter().map(Asked::written).collect::<Vec<_>>().join(",")
}
