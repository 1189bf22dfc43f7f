//! Subflows of Multipath TCP connections, in the table and in JSON.

use super::keys::press;
use super::*;

/// A download of 3 MB/s and an upload over two subflows of 2 MB/s each.
fn multipath() -> Model {
    let mut model = Model::default();
    for (cookie, mptcp) in [(1, 0), (2, 0xbeef), (3, 0xbeef)] {
        let open = Open { mptcp, family: 2, ..Open::default() };
        let mut event = event(100 * SECOND + cookie, cookie, Kind::Open, [1, 0], established());
        event.body = Body::Open(open);
        model.push(&event);
    }
    for step in 1..=200u32 {
        let time_ns = 100 * SECOND + u64::from(step) * 10 * MS;
        model.push(&ack(time_ns, 1, 1, step * 30_000));
        model.push(&ack(time_ns, 2, step * 20_000, 1));
        model.push(&ack(time_ns, 3, step * 20_000, 1));
    }
    model.tick(102 * SECOND);
    model
}

#[test]
fn subflows_stand_under_their_sum_which_decides_their_place() {
    let model = multipath();
    let mut app = App::new(Column::Rate, "");
    let token = transom_event::Token(0xbeef);
    let under = [Row::Sum(token), Row::Subflow(2), Row::Subflow(3)];
    assert_eq!(app.rows(&model), [&under[..], &[Row::Connection(1)]].concat());
    press(&mut app, &model, "r");
    assert_eq!(app.rows(&model), [&[Row::Connection(1)], &under[..]].concat());
    let screen = draw(&mut app, &model, 80, 24);
    let sum = screen.iter().find(|line| line.contains("2 subflows, 0000beef")).unwrap();
    assert!(sum.contains(" 4.0"), "{sum}");
    let mut filtered = App::new(Column::Rate, "mptcp beef");
    assert_eq!(filtered.rows(&model), under);
}

#[test]
fn a_sum_has_no_details_and_its_subflows_have() {
    let model = multipath();
    let mut app = App::new(Column::Rate, "");
    app.rows(&model);
    press(&mut app, &model, "\n");
    assert_eq!(app.view, View::Detail(2));
    press(&mut app, &model, "jj");
    assert_eq!(app.view, View::Detail(1));
    press(&mut app, &model, "kkk");
    assert_eq!(app.view, View::Detail(2), "not the sum above it");
}

#[test]
fn json_names_the_subflows_and_their_sum() {
    let order = Order { column: Column::Rate, reverse: false };
    let object = snapshot::object(&multipath(), &Status::default(), order, &Filter::default());
    let sums = object["multipath"].as_array().unwrap();
    assert_eq!(sums.len(), 1);
    assert_eq!(sums[0]["mptcp"], 0xbeef);
    assert_eq!(sums[0]["subflows"], serde_json::json!([2, 3]));
    assert_eq!(sums[0]["acked_bytes"], 2 * 199 * 20_000);
    let tokens: Vec<_> = object["connections"].as_array().unwrap().iter().collect();
    assert_eq!(tokens[0]["mptcp"], 0xbeef);
    assert!(tokens[2]["mptcp"].is_null());
}
