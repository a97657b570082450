// SPDX-License-Identifier: Apache-2.0
// names.mjs FOLDER TABLE: prints, as JSON, the names of the table that the page would show otherwise than api/draw/names, and names of views.
import { readFileSync } from 'node:fs';

const [folder, table] = process.argv.slice(2), { readableName, viewNames } = await import(`${folder}/names.js`);
const rows = readFileSync(table, 'utf8').split('\n').filter((line) => line && !line.startsWith('#')).map((line) => line.split('\t'));
const wrong = rows.flatMap(([, full, short, long]) => [[short, readableName(full)], [long, readableName(full, true)]]).filter(([wanted, shown]) => wanted !== shown);
const view = viewNames(['shop::hash(std::basic_string_view<char, std::char_traits<char> >)', 'shop::hash(char const*)', 'shop::index(char const*)', 'std::string::size()', 'std::__cxx11::basic_string<char>::size()']);
const deep = `f${'<a::b'.repeat(200)}${' >'.repeat(200)}`;
console.log(JSON.stringify({ count: rows.length, wrong, view, deep: readableName(deep) === deep }));
