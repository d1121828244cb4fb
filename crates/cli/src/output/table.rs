//! Tables that fit the terminal. Texts are truncated if necessary; ids never are.

use anstyle::Style;

/// Minimum width of a truncated column.
const LEAST: usize = 6;
const GAP: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub heading: String,
    /// Whether it may be truncated.
    pub flexible: bool,
}

/// A cell: its text and style.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    style: Option<Style>,
}

impl Cell {
    pub fn styled(text: &str, style: Style) -> Cell {
        Cell { text: clean(text), style: Some(style) }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: clean(text.as_ref()), style: None }
    }
}

/// External text on one line, without control characters.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these headings; columns whose heading begins with `~` may be truncated.
    pub fn new(headings: &[&str]) -> Table {
        let column = |heading: &&str| Column {
            heading: heading.trim_start_matches('~').to_owned(),
            flexible: heading.starts_with('~'),
        };
        Table { columns: headings.iter().map(column).collect(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines, within a width if given.
    pub fn render(&self, width: Option<usize>) -> String {
        let widths = fit(&self.natural(), &self.columns, width);
        let headings = self.columns.iter().map(|column| column.heading.as_str());
        let heading = line(headings, &widths);
        let rows = self.rows.iter().map(|row| line(row.iter().map(|cell| cell.text.as_str()), &widths));
        let lines = std::iter::once(heading).chain(rows).enumerate();
        lines.map(|(number, line)| self.paint(number, &line)).collect::<Vec<_>>().join("\n")
    }

    fn natural(&self) -> Vec<usize> {
        let longest = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| length(&cell.text));
            cells.chain([length(&self.columns[at].heading)]).max().unwrap_or(0)
        };
        (0..self.columns.len()).map(longest).collect()
    }

    /// Colours are added after the layout: every row is one line, so colour codes are never measured.
    fn paint(&self, number: usize, line: &str) -> String {
        if number == 0 {
            let bold = Style::new().bold();
            return format!("{bold}{line}{bold:#}");
        }
        let styled =
            self.rows.get(number - 1).into_iter().flatten().filter_map(|cell| Some((cell, cell.style?)));
        styled.fold(line.to_owned(), |line, (cell, style)| {
            line.replacen(&cell.text, &format!("{style}{}{style:#}", cell.text), 1)
        })
    }
}

fn length(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// One line of texts in columns.
fn line<'a>(texts: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
    let cells = texts.zip(widths).map(|(text, width)| {
        let text = cut(text, *width);
        let rest = width.saturating_sub(length(&text));
        text + &" ".repeat(rest)
    });
    cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
}

/// Truncates a text to this number of columns.
fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if used >= width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

/// Shrinks the widest column that may be truncated until all fit, or no column can be shrunk.
fn fit(natural: &[usize], columns: &[Column], width: Option<usize>) -> Vec<usize> {
    let mut widths = natural.to_vec();
    let Some(width) = width else { return widths };
    let total = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
    while total(&widths) > width {
        let candidates = (0..widths.len()).filter(|&at| columns[at].flexible && widths[at] > LEAST);
        let Some(widest) = candidates.max_by_key(|&at| widths[at]) else { break };
        widths[widest] -= 1;
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(&["ID", "STATE", "~KEY", "~ERROR"]);
        let green = Style::new().fg_color(Some(anstyle::AnsiColor::Green.into()));
        table.row([
            "9007199254740991".into(),
            Cell::styled("● running", green),
            "a".repeat(40).into(),
            "short".into(),
        ]);
        table.row([
            "7".into(),
            "✗ failed".into(),
            "ключ 漢字漢字漢字漢字".into(),
            "it said\nno, with many words".into(),
        ]);
        table
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn tables_fit_the_terminal_and_ids_are_whole() {
        for width in [60, 70, 80, 100] {
            let text = plain(&sample().render(Some(width)));
            assert!(text.lines().all(|line| length(line) <= width), "{width}:\n{text}");
            assert_eq!(text.lines().count(), 3, "{text}");
            assert!(text.contains("9007199254740991"), "{text}");
        }
        assert!(plain(&sample().render(Some(60))).contains('…'));
        let narrow = plain(&sample().render(Some(20)));
        assert!(narrow.contains("9007199254740991"), "an id is never cut:\n{narrow}");
    }

    #[test]
    fn nothing_is_cut_in_a_pipe() {
        let text = plain(&sample().render(None));
        assert!(text.contains(&"a".repeat(40)));
        assert!(text.contains("it said no, with many words"), "one line per row: {text}");
        assert!(!text.contains('…'));
        assert_eq!(
            text.lines().next().unwrap().split_whitespace().collect::<Vec<_>>(),
            ["ID", "STATE", "KEY", "ERROR"]
        );
    }

    #[test]
    fn states_are_coloured_in_their_own_row() {
        let text = sample().render(None);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("\u{1b}[32m● running"), "{text:?}");
        assert!(!lines[2].contains('\u{1b}'), "{text:?}");
    }

    #[test]
    fn what_moves_the_cursor_is_taken_out() {
        assert_eq!(clean("a\u{1b}[2Jb\r\nc"), "a [2Jb  c");
    }
}
