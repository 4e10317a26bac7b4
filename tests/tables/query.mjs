// SPDX-License-Identifier: GPL-2.0-or-later
// query.mjs FOLDER SQL...: runs each SQL statement in one DuckDB; prints the rows of each as a JSON array of arrays.
// FOLDER has the npm package @duckdb/node-api.
import { createRequire } from 'node:module';

const [folder, ...statements] = process.argv.slice(2);
const { DuckDBInstance } = createRequire(`${folder}/`)('@duckdb/node-api');
const connection = await (await DuckDBInstance.create(':memory:')).connect();
for (const sql of statements)
	console.log(JSON.stringify((await connection.runAndReadAll(sql)).getRowsJson()));
