//! Tables of the page. Cells are escaped here, so that no caller can forget to.

use crate::escape::html;

/// A cell.
pub(super) enum Cell {
    /// A number or a short text of our own, aligned to the right.
    Plain(String),
    /// A text aligned to the left.
    Left(String),
    /// A key or rule from outside: it may be long.
    Key(String),
    /// A bar of so many hundredths of the cell's width.
    Bar(u64),
}

/// Returns a table that scrolls in itself and can be reached by the keyboard.
///
/// The first cell of a row is its head. A head that begins with `<` is aligned to the left.
pub(super) fn table(
    caption: &str,
    heads: &[&str],
    rows: impl IntoIterator<Item = Vec<Cell>>,
) -> String {
    let caption = html(caption);
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table><caption>{caption}</caption><thead><tr>"
    );
    for head in heads {
        text.push_str(&match head.strip_prefix('<') {
            Some(head) => format!("<th scope=\"col\" class=\"left\">{}</th>", html(head)),
            None => format!("<th scope=\"col\">{}</th>", html(head)),
        });
    }
    text.push_str("</tr></thead><tbody>\n");
    for row in rows {
        text.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            text.push_str(&match cell {
                Cell::Key(key) if index == 0 => format!(
                    "<th scope=\"row\" class=\"key\"><code>{}</code></th>",
                    html(key)
                ),
                Cell::Plain(text) | Cell::Left(text) if index == 0 => {
                    format!("<th scope=\"row\">{}</th>", html(text))
                }
                Cell::Plain(text) => format!("<td>{}</td>", html(text)),
                Cell::Left(text) => format!("<td class=\"left\">{}</td>", html(text)),
                Cell::Key(key) => format!("<td class=\"key\">{}</td>", html(key)),
                Cell::Bar(share) => format!(
                    "<td class=\"bar\"><span style=\"width:{}%\"></span></td>",
                    share.min(&100)
                ),
            });
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
    text
}
