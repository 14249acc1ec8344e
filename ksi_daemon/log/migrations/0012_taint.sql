-- Whether what is kept under a key was written by an agent that had read untrusted text.
ALTER TABLE state ADD COLUMN tainted INTEGER NOT NULL DEFAULT 0;
