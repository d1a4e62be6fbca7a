export { type ToolCase, type ToolSubject, toolSuite } from '../testing/tool.suite.ts';
