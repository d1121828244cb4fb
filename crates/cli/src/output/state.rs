//! The display of states: a symbol and a colour each, so that neither alone carries the meaning.

use anstyle::{AnsiColor, Style};

use crate::output::table::Cell;

fn look(state: &str) -> (&'static str, Option<AnsiColor>) {
    match state {
        "scheduled" => ("◷", Some(AnsiColor::Blue)),
        "queued" => ("○", Some(AnsiColor::Blue)),
        "blocked" => ("◌", Some(AnsiColor::Magenta)),
        "assigned" | "accepted" => ("◔", Some(AnsiColor::Cyan)),
        "running" => ("●", Some(AnsiColor::Cyan)),
        "waiting" => ("◑", Some(AnsiColor::Cyan)),
        "retrying" => ("↻", Some(AnsiColor::Yellow)),
        "succeeded" => ("✓", Some(AnsiColor::Green)),
        "failed" => ("✗", Some(AnsiColor::Red)),
        "crashed" => ("‼", Some(AnsiColor::Red)),
        "cancelled" => ("⊘", None),
        _ => ("·", None),
    }
}

fn style(state: &str) -> Style {
    let style = Style::new().fg_color(look(state).1.map(Into::into));
    if state == "cancelled" { style.dimmed() } else { style }
}

/// The symbol and name of a state.
pub fn cell(state: &str) -> Cell {
    Cell::styled(&format!("{} {state}", look(state).0), style(state))
}

/// The symbol and name of a state, coloured.
pub fn text(state: &str) -> String {
    let style = style(state);
    format!("{style}{} {state}{style:#}", look(state).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_symbol_of_its_own_meaning() {
        for name in jobhall_core::StateName::ALL {
            assert_ne!(look(name.as_str()).0, "·", "{name}");
        }
        assert_eq!(look("a_state_to_come").0, "·");
    }
}
