const OID = { smallint: 21, integer: 23, bigint: 20, text: 25, bytea: 17, uuid: 2950 } as const;
const HEADER_BYTES = 20;

/**
 * An array in the binary form of the protocol, which the driver uses for a Buffer; written item by item. As text, every
 * item would be escaped here and parsed there.
 */
export class BinaryArray {
  readonly #bytes: Buffer;
  #at = HEADER_BYTES;

  /** `size` is the room for all items. */
  constructor(type: keyof typeof OID, count: number, size: number) {
    const bytes = Buffer.allocUnsafe(HEADER_BYTES + count * 4 + size);
    bytes.writeInt32BE(1, 0);
    // Whether there are nulls; the server looks for itself.
    bytes.writeInt32BE(0, 4);
    bytes.writeInt32BE(OID[type], 8);
    bytes.writeInt32BE(count, 12);
    bytes.writeInt32BE(1, 16);
    this.#bytes = bytes;
  }

  smallint(value: number): void {
    this.#bytes.writeInt32BE(2, this.#at);
    this.#bytes.writeInt16BE(value, this.#at + 4);
    this.#at += 6;
  }

  integer(value: number): void {
    this.#bytes.writeInt32BE(4, this.#at);
    this.#bytes.writeInt32BE(value, this.#at + 4);
    this.#at += 8;
  }

  /** A number from 0 to 2^53. */
  bigint(value: number): void {
    this.#bytes.writeInt32BE(8, this.#at);
    this.#bytes.writeUInt32BE(Math.floor(value / 0x1_0000_0000), this.#at + 4);
    this.#bytes.writeUInt32BE(value % 0x1_0000_0000, this.#at + 8);
    this.#at += 12;
  }

  text(value: string | null, encoding: 'utf8' | 'latin1' | 'hex' = 'utf8'): void {
    const length = value === null ? -1 : this.#bytes.write(value, this.#at + 4, encoding);
    this.#bytes.writeInt32BE(length, this.#at);
    this.#at += 4 + Math.max(length, 0);
  }

  done(): Buffer {
    return this.#bytes.subarray(0, this.#at);
  }
}
