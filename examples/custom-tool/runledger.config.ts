import { defineConfig } from 'runledger';
import { slug } from './tools/slug.ts';

export default defineConfig({ tools: [slug] });
