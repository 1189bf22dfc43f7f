//! Names in scripts whose characters take two columns, and screens with few columns.

use ratatui::text::Line;

use super::*;

/// Connections alike but for their programs.
fn named(programs: &[&str]) -> Model {
    let mut model = Model::default();
    for (cookie, program) in (1..).zip(programs) {
        let mut open = Open { family: 2, ..Open::default() };
        open.comm[..program.len()].copy_from_slice(program.as_bytes());
        let mut named = ack(SECOND, cookie, 0, 0);
        (named.kind, named.body) = (Kind::Open, Body::Open(open));
        model.push(&named);
        model.push(&ack(SECOND, cookie, 0, 0));
    }
    model.tick(SECOND);
    model
}

const NAMES: [&str; 3] = ["iperf3", "日本語プロ", "한국"];

#[test]
fn a_wide_name_moves_no_other_cell_of_the_screen() {
    let screen = draw(&mut App::new(Column::Program, ""), &named(&NAMES), 80, 10);
    // One symbol for each column: the place of a cell is its column.
    let rows = screen[2..5].iter().map(|row| row.chars().skip(10).collect::<String>());
    let rows: Vec<String> = rows.collect();
    assert!(rows[0].contains("10"), "no window in {screen:#?}");
    assert!(rows.iter().all(|row| row == &rows[0]), "{screen:#?}");
}

#[test]
fn a_wide_name_moves_no_other_cell_of_the_text() {
    let order = Order { column: Column::Program, reverse: false };
    let text = snapshot::table(&named(&NAMES), order, &Filter::new(""), Theme::default());
    let place = |line: &str| line.find("established").map(|at| Line::raw(&line[..at]).width());
    let places: Vec<_> = text.lines().skip(1).map(place).collect();
    assert!(places.len() == 3 && places[0].is_some(), "{text}");
    assert!(places.iter().all(|place| *place == places[0]), "{text}");
}

#[test]
fn the_help_says_the_same_on_a_narrow_screen() {
    let model = Model::default();
    let words = |width: u16| {
        let mut app = App::new(Column::Rate, "");
        app.help = true;
        let screen = draw(&mut app, &model, width, 100);
        let words = screen.iter().flat_map(|line| line.split_whitespace().map(str::to_owned));
        words.collect::<Vec<_>>()
    };
    assert_eq!(words(40), words(200));
}
