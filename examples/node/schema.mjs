// The part of JSON Schema (2020-12) that docs/schemas uses: whether a document is well formed, and its defaults.
import { readFileSync } from 'node:fs';

const loaded = new Map();

function load(name) {
  if (!loaded.has(name)) {
    loaded.set(name, JSON.parse(readFileSync(new URL(`../../docs/schemas/${name}.json`, import.meta.url))));
  }
  return loaded.get(name);
}

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const TYPES = {
  object: isObject,
  array: Array.isArray,
  string: (value) => typeof value === 'string',
  integer: Number.isSafeInteger,
  number: Number.isFinite,
  boolean: (value) => typeof value === 'boolean',
  null: (value) => value === null,
};

function textFits(schema, value) {
  const length = [...value].length;
  return length >= (schema.minLength ?? 0) && length <= (schema.maxLength ?? Infinity)
    && (schema.pattern === undefined || new RegExp(schema.pattern, 'u').test(value));
}

const numberFits = (schema, value) => value >= (schema.minimum ?? -Infinity) && value <= (schema.maximum ?? Infinity)
  && value > (schema.exclusiveMinimum ?? -Infinity) && value < (schema.exclusiveMaximum ?? Infinity);

function arrayFits(root, schema, value) {
  const items = (schema.prefixItems ?? []).every((each, i) => i >= value.length || fits(root, each, value[i]));
  const rest = value.slice(schema.prefixItems?.length ?? 0);
  return items && value.length >= (schema.minItems ?? 0) && value.length <= (schema.maxItems ?? Infinity)
    && rest.every((each) => schema.items === undefined || fits(root, schema.items, each));
}

function memberFits(root, schema, name, value) {
  const own = schema.properties && Object.hasOwn(schema.properties, name) ? schema.properties[name] : null;
  if (own) return fits(root, own, value);
  const patterns = Object.entries(schema.patternProperties ?? {}).filter(([pattern]) => new RegExp(pattern, 'u').test(name));
  if (patterns.length) return patterns.every(([, each]) => fits(root, each, value));
  if (schema.patternProperties && schema.additionalProperties === undefined) return false;
  if (schema.additionalProperties === false) return false;
  return !isObject(schema.additionalProperties) || fits(root, schema.additionalProperties, value);
}

function objectFits(root, schema, value) {
  const names = Object.keys(value);
  return names.length >= (schema.minProperties ?? 0) && names.length <= (schema.maxProperties ?? Infinity)
    && (schema.required ?? []).every((name) => Object.hasOwn(value, name))
    && names.every((name) => memberFits(root, schema, name, value[name]));
}

function fits(root, schema, value) {
  if (schema.$ref && !fits(root, root.$defs[schema.$ref.slice('#/$defs/'.length)], value)) return false;
  if (schema.type && !TYPES[schema.type](value)) return false;
  if ('const' in schema && value !== schema.const) return false;
  if (schema.enum && !schema.enum.includes(value)) return false;
  if (schema.anyOf && !schema.anyOf.some((each) => fits(root, each, value))) return false;
  if (schema.oneOf && schema.oneOf.filter((each) => fits(root, each, value)).length !== 1) return false;
  if (typeof value === 'string') return textFits(schema, value);
  if (typeof value === 'number') return numberFits(schema, value);
  if (Array.isArray(value)) return arrayFits(root, schema, value);
  return !isObject(value) || objectFits(root, schema, value);
}

/** Whether a document matches the schema docs/schemas/`name`.json. */
export const isOf = (name, value) => fits(load(name), load(name), value);

/** The document with the defaults of its schema; throws if it does not match the schema. */
export function withDefaults(name, value) {
  if (!isOf(name, value)) throw new Error(`the document does not match docs/schemas/${name}.json`);
  const out = { ...value };
  for (const [member, schema] of Object.entries(load(name).properties)) {
    if (!Object.hasOwn(out, member) && 'default' in schema) out[member] = schema.default;
  }
  return out;
}
