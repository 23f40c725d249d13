// The page's door: styles, the connection to a trainer, and the app. Nothing is fetched or started here.

import './styles/palette.css'
import './styles/page.css'
import { mount } from 'svelte'
import App from './App.svelte'
import { connect } from './connect.ts'
import { isServed } from './served.ts'
import { Server } from './state/server.svelte.ts'

const server = isServed ? new Server() : null
mount(App, { target: document.getElementById('app')!, props: { connect, server } })
