/** Express 4 under a name of its own; what is used of it has the types of Express 5. */
declare module 'express-4' {
  export { default } from 'express'
}
