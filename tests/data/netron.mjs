// Opens a file with Netron's own code, and prints its nodes and what a search in it finds: netron.mjs FOLDER FILE QUERY…
import * as fs from 'fs';

const [folder, file, ...queries] = process.argv.slice(2);
const view = await import(`${folder}/view.js`);
const base = await import(`${folder}/base.js`);
const asset = async (name) => fs.readFileSync(`${folder}/${name}`, 'utf-8');
const require = (id) => import(`${folder}/${id}.js`);
const fail = (error) => { throw error; };
const host = { require, asset, environment: () => false, event: () => {}, exception: fail };
const stream = new base.BinaryStream(new Uint8Array(fs.readFileSync(file)));
const context = { identifier: 'model.onnx', stream, entries: new Map(), require, asset, error: fail };
const model = await new view.ModelFactoryService(host).open(context);
const graph = model.modules[0];
const find = (query) => {
    const found = [];
    const sidebar = new view.FindSidebar({ _host: host }, { query, node: true, connection: false, weight: false }, graph);
    sidebar._table = new Map();
    sidebar._edges = new Set();
    sidebar._content = { replaceChildren: () => {} };
    sidebar._focus = () => {};
    sidebar.error = fail;
    sidebar._add = (node, content) => found.push(content);
    sidebar._update();
    return found;
};
const nodes = graph.nodes.map((node) => ({
    name: node.name,
    description: node.description,
    attributes: Object.fromEntries((node.attributes || []).map((attribute) => [attribute.name, attribute.type])),
    metadata: Object.fromEntries(node.metadata.map((entry) => [entry.name, entry.value]))
}));
const entries = model.metadata.map((entry) => entry.name);
console.log(JSON.stringify({ nodes, model: entries, found: Object.fromEntries(queries.map((query) => [query, find(query)])) }));
