// The page's door: styles, the connection to a trainer, and the app. Nothing is fetched or started here.

import './styles/palette.css'
import './styles/page.css'
import { mount } from 'svelte'
import App from './App.svelte'
import { connect } from './connect.ts'

mount(App, { target: document.getElementById('app')!, props: { connect } })
