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

/// A screen in which everything is told that can be.
fn busy(width: u16, height: u16, view: View) -> Vec<String> {
    let mut app = App::new(Column::Rate, "i");
    app.view = view;
    let status = Status {
        lost: vec![(LossCause::Ring, 12_345), (LossCause::UnseenSend, 21)],
        note: Some("this kernel runs no probes: only samples, four times a second".into()),
    };
    let theme = Theme { colour: true, ascii: false };
    draw_with(&mut app, &named(&["iperf3"]), &status, theme, width, height)
}

fn words_of(lines: &[String]) -> Vec<&str> {
    lines.iter().flat_map(|line| line.split_whitespace()).collect()
}

#[test]
fn the_lines_on_top_say_the_same_on_a_narrow_screen() {
    let titles = |line: &String| line.contains("PROGRAM");
    let (wide, narrow) = (busy(250, 24, View::Table), busy(40, 24, View::Table));
    let above = |screen: &[String]| screen.iter().position(titles).expect("the titles");
    assert_eq!((above(&wide), above(&narrow)), (2, 6), "{narrow:#?}");
    assert_eq!(words_of(&narrow[..6]), words_of(&wide[..2]));
    assert!(narrow[7].contains("iperf3"), "{narrow:#?}");
    // On a low screen the connections come first.
    let low = busy(40, 7, View::Table);
    assert!(titles(&low[1]) && low[2].contains("iperf3"), "{low:#?}");
}

#[test]
fn the_line_of_keys_ends_with_a_whole_one_on_a_narrow_screen() {
    let last = |width: u16, view: View| busy(width, 24, view).pop().unwrap().trim().to_owned();
    assert_eq!(last(44, View::Table), "? help  q quit  Enter detail  / filter");
    assert_eq!(last(44, View::Detail(1)), "Esc table  ? help  q quit  Space freeze");
    let all = "Esc table  ? help  q quit  Space freeze  ↑↓ other connection";
    assert_eq!(last(60, View::Detail(1)), all);
}
